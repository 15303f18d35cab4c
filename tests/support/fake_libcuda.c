/* A driver library for tests of how the package starts: it has a device but runs no kernels. Built by the Python tests.
   FAKE_CUDA_VERSION, FAKE_CUDA_DEVICES, FAKE_CUDA_SM and FAKE_CUDA_INIT set what it says; FAKE_CUDA_LOG is a file that
   gets one line per call asked for by name. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int setting(const char* name, int standard) {
  const char* value = getenv(name);
  return value != NULL && *value != '\0' ? atoi(value) : standard;
}

static void note(const char* text) {
  const char* path = getenv("FAKE_CUDA_LOG");
  FILE* file = path != NULL ? fopen(path, "a") : NULL;
  if (file == NULL) return;
  fprintf(file, "%s\n", text);
  fclose(file);
}

static int unsupported(void) { return 801; }
static int success(void) { return 0; }
static int handles = 0;
static int make_handle(void** handle) {
  *handle = (void*)(uintptr_t)(0x1000 + 16 * ++handles);
  return 0;
}
static void* current = NULL;

static int get_error_name(int code, const char** name) {
  *name = code == 801 ? "CUDA_ERROR_NOT_SUPPORTED" : code == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
static int init(unsigned flags) {
  (void)flags;
  char line[64];
  const char* connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  snprintf(line, sizeof line, "cuInit connections=%s", connections != NULL ? connections : "unset");
  note(line);
  return setting("FAKE_CUDA_INIT", 0);
}
int cuDriverGetVersion(int* version) {
  note("cuDriverGetVersion");
  *version = setting("FAKE_CUDA_VERSION", 12040);
  return 0;
}
static int device_count(int* count) {
  *count = setting("FAKE_CUDA_DEVICES", 1);
  return 0;
}
static int device_get(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
static int device_name(char* name, int length, int device) {
  (void)device;
  snprintf(name, (size_t)length, "Fake GPU");
  return 0;
}
static int device_memory(size_t* bytes, int device) {
  (void)device;
  *bytes = (size_t)1 << 34;
  return 0;
}
static int device_attribute(int* value, int attribute, int device) {
  (void)device;
  int sm = setting("FAKE_CUDA_SM", 90);
  *value = attribute == 75 ? sm / 10 : attribute == 76 ? sm % 10 : attribute == 10 ? 32 : 1024;
  if (attribute == 102) *value = 0; /* no virtual memory management */
  return 0;
}
static int retain(void** context, int device) {
  (void)device;
  return make_handle(context);
}
static int get_current(void** context) {
  *context = current;
  return 0;
}
static int set_current(void* context) {
  current = context;
  return 0;
}
static int get_device(int* device) {
  *device = 0;
  return 0;
}
static int create_stream(void** stream, unsigned flags, int priority) {
  (void)flags, (void)priority;
  return make_handle(stream);
}
static int create_event(void** event, unsigned flags) {
  (void)flags;
  return make_handle(event);
}
static int allocate(uint64_t* address, size_t bytes) {
  *address = (uint64_t)(uintptr_t)malloc(bytes);
  return *address != 0 ? 0 : 2;
}
static int release(uint64_t address) {
  free((void*)(uintptr_t)address);
  return 0;
}
static int memory_info(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = (size_t)1 << 34;
  return 0;
}
static int allocate_pinned(void** memory, size_t bytes, unsigned flags) {
  (void)flags;
  *memory = malloc(bytes);
  return *memory != NULL ? 0 : 2;
}
static int copy_in(uint64_t to, const void* from, size_t bytes, void* stream) {
  (void)stream;
  memcpy((void*)(uintptr_t)to, from, bytes);
  return 0;
}
static int copy_out(void* to, uint64_t from, size_t bytes, void* stream) {
  (void)stream;
  memcpy(to, (const void*)(uintptr_t)from, bytes);
  return 0;
}
static int set_bytes(uint64_t to, unsigned char value, size_t count, void* stream) {
  (void)stream;
  memset((void*)(uintptr_t)to, value, count);
  return 0;
}
static int capture_info(void* stream, int* status, uint64_t* id, void* graph, void* nodes, void* count) {
  (void)stream, (void)id, (void)graph, (void)nodes, (void)count;
  *status = 0;
  return 0;
}
static int pointer_attribute(void* value, int attribute, uint64_t address) {
  (void)value, (void)attribute, (void)address;
  return 1;
}

struct entry {
  const char* name;
  void* function;
};
#define ENTRY(name, function) \
  { name, (void*)(function) }

int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, void* status) {
  (void)version, (void)flags, (void)status;
  static const struct entry entries[] = {
      ENTRY("cuGetErrorName", get_error_name),
      ENTRY("cuInit", init),
      ENTRY("cuDriverGetVersion", cuDriverGetVersion),
      ENTRY("cuDeviceGetCount", device_count),
      ENTRY("cuDeviceGet", device_get),
      ENTRY("cuDeviceGetName", device_name),
      ENTRY("cuDeviceTotalMem", device_memory),
      ENTRY("cuDeviceGetAttribute", device_attribute),
      ENTRY("cuDevicePrimaryCtxRetain", retain),
      ENTRY("cuDevicePrimaryCtxRelease", success),
      ENTRY("cuCtxGetCurrent", get_current),
      ENTRY("cuCtxSetCurrent", set_current),
      ENTRY("cuCtxGetDevice", get_device),
      ENTRY("cuCtxSynchronize", success),
      ENTRY("cuThreadExchangeStreamCaptureMode", success),
      ENTRY("cuMemAlloc", allocate),
      ENTRY("cuMemFree", release),
      ENTRY("cuMemGetInfo", memory_info),
      ENTRY("cuMemHostAlloc", allocate_pinned),
      ENTRY("cuMemFreeHost", success),
      ENTRY("cuPointerGetAttribute", pointer_attribute),
      ENTRY("cuMemcpyHtoDAsync", copy_in),
      ENTRY("cuMemcpyDtoHAsync", copy_out),
      ENTRY("cuMemsetD8Async", set_bytes),
      ENTRY("cuStreamCreateWithPriority", create_stream),
      ENTRY("cuStreamDestroy", success),
      ENTRY("cuStreamSynchronize", success),
      ENTRY("cuStreamQuery", success),
      ENTRY("cuStreamWaitEvent", success),
      ENTRY("cuStreamGetCaptureInfo", capture_info),
      ENTRY("cuEventCreate", create_event),
      ENTRY("cuEventDestroy", success),
      ENTRY("cuEventRecord", success),
      ENTRY("cuEventSynchronize", success),
      ENTRY("cuEventQuery", success),
  };
  *function = (void*)unsupported;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; ++i) {
    if (strcmp(name, entries[i].name) == 0) *function = entries[i].function;
  }
  return 0;
}
