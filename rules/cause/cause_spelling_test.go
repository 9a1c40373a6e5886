package cause

import (
	"encoding/json"
	"testing"
)

func TestEarlierSpellingOfCauses(t *testing.T) {
	var f struct {
		Cause    Kind
		Excluded map[Kind]string
	}
	if err := json.Unmarshal([]byte(`{"Cause": "wave-quantisation", "Excluded": {"tile-quantisation": "no"}}`), &f); err != nil {
		t.Fatal(err)
	}
	if f.Cause != WaveQuantization || f.Excluded[TileQuantization] != "no" {
		t.Errorf("read %+v", f)
	}
}
