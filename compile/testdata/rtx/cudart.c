// A stand-in for CUDA's runtime, whose device memory is the host's. It has what rtx.py calls.
#include <stdlib.h>
#include <string.h>

int cudaGetDeviceCount(int *count) { *count = getenv("FAKE_GPU") ? 1 : 0; return *count ? 0 : 35; }
int cudaDriverGetVersion(int *version) { *version = 13040; return 0; }
int cudaGetDeviceProperties(void *properties, int device) { strcpy(properties, getenv("FAKE_GPU")); return device; }
int cudaMalloc(void **pointer, size_t size) { *pointer = malloc(size); return *pointer ? 0 : 2; }
int cudaFree(void *pointer) { free(pointer); return 0; }
int cudaMemcpy(void *target, const void *source, size_t size, int kind) { memcpy(target, source, size); return kind == 1 || kind == 2 ? 0 : 21; }
int cudaDeviceSynchronize(void) { return 0; }
