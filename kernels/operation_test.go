package kernels

import "testing"

func TestOnRequest(t *testing.T) {
	for name, onRequest := range map[string]bool{
		"auto": false, "cublas": false, "cublaslt": false, "cublaslt@12.4": false, "flat": false,
		"naive": true, "hopper": true, "w4a16": true, "auto-serial": true, "cublaslt-fast": true, "cublaslt-fast@12.4": true,
		"cublas-streams": false, "cublas-grouped": false, "cublaslt-streams": true,
		"int8-activations": true,
	} {
		if why := GEMM.OnRequest(name); (why != "") != onRequest {
			t.Errorf("%s is measured on request: %q", name, why)
		}
	}
	if why := Softmax.OnRequest("auto-serial"); why != "" {
		t.Errorf("softmax has auto-serial on request: %q", why)
	}
}
