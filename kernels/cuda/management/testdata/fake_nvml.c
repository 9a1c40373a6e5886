// An old NVML: it starts, has one card with power and throttle reasons under the old names, and exports no
// other functions.

typedef struct card *Device;

#define EXPORT __attribute__((visibility("default")))

EXPORT int nvmlInit(void) { return 0; }
EXPORT const char *nvmlErrorString(int result) { return result ? "an old error" : "success"; }

EXPORT int nvmlDeviceGetHandleByPciBusId(const char *id, Device *device) {
	(void)id;
	*device = (Device)1;
	return 0;
}

EXPORT int nvmlDeviceGetPowerUsage(Device device, unsigned *milliwatts) {
	(void)device;
	*milliwatts = 70000;
	return 0;
}

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *reasons) {
	(void)device;
	*reasons = 4;
	return 0;
}

EXPORT int nvmlDeviceGetTemperature(Device device, int sensor, unsigned *degrees) {
	(void)device, (void)sensor, (void)degrees;
	return 3; // not supported
}
