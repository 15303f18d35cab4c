// The driver's entry points as a table of function pointers. Filled from libcuda (cuda.h) or by host_table.h.
#pragma once

#include "gpukit/driver/abi.h"

namespace gpukit::driver {

// One line per function: X(name, version whose signature is declared, exported symbol of that version, parameters).
#define GPUKIT_CUDA_FUNCTIONS(X)                                                                                       \
  X(cuGetErrorName, 6000, "cuGetErrorName", (CUresult code, const char** name))                                        \
  X(cuInit, 2000, "cuInit", (unsigned flags))                                                                          \
  X(cuDriverGetVersion, 2020, "cuDriverGetVersion", (int* version))                                                    \
  X(cuDeviceGetCount, 2000, "cuDeviceGetCount", (int* count))                                                          \
  X(cuDeviceGet, 2000, "cuDeviceGet", (CUdevice * device, int ordinal))                                                \
  X(cuDeviceGetName, 2000, "cuDeviceGetName", (char* name, int length, CUdevice device))                               \
  X(cuDeviceGetUuid, 11040, "cuDeviceGetUuid_v2", (CUuuid * uuid, CUdevice device))                                    \
  X(cuDeviceGetPCIBusId, 4010, "cuDeviceGetPCIBusId", (char* bus, int length, CUdevice device))                        \
  X(cuDeviceTotalMem, 3020, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                                  \
  X(cuDeviceGetAttribute, 2000, "cuDeviceGetAttribute", (int* value, int attribute, CUdevice device))                  \
  X(cuDevicePrimaryCtxRetain, 7000, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))                \
  X(cuDevicePrimaryCtxRelease, 11000, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                               \
  X(cuCtxGetCurrent, 4000, "cuCtxGetCurrent", (CUcontext * context))                                                   \
  X(cuCtxSetCurrent, 4000, "cuCtxSetCurrent", (CUcontext context))                                                     \
  X(cuCtxGetDevice, 2000, "cuCtxGetDevice", (CUdevice * device))                                                       \
  X(cuCtxSynchronize, 2000, "cuCtxSynchronize", ())                                                                    \
  X(cuMemAlloc, 3020, "cuMemAlloc_v2", (CUdeviceptr * address, size_t bytes))                                          \
  X(cuMemFree, 3020, "cuMemFree_v2", (CUdeviceptr address))                                                            \
  X(cuMemGetInfo, 3020, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes))                                \
  X(cuMemHostAlloc, 2020, "cuMemHostAlloc", (void** memory, size_t bytes, unsigned flags))                             \
  X(cuMemFreeHost, 2000, "cuMemFreeHost", (void* memory))                                                              \
  X(cuPointerGetAttribute, 4000, "cuPointerGetAttribute", (void* value, int attribute, CUdeviceptr address))           \
  X(cuMemHostRegister, 6050, "cuMemHostRegister_v2", (void* memory, size_t bytes, unsigned flags))                     \
  X(cuMemHostUnregister, 4000, "cuMemHostUnregister", (void* memory))                                                  \
  X(cuMemGetAllocationGranularity, 10020, "cuMemGetAllocationGranularity",                                             \
    (size_t * bytes, const CUmemAllocationProp* properties, int option))                                               \
  X(cuMemCreate, 10020, "cuMemCreate",                                                                                 \
    (CUmemHandle * handle, size_t bytes, const CUmemAllocationProp* properties, unsigned long long flags))             \
  X(cuMemRelease, 10020, "cuMemRelease", (CUmemHandle handle))                                                         \
  X(cuMemAddressReserve, 10020, "cuMemAddressReserve",                                                                 \
    (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags))               \
  X(cuMemAddressFree, 10020, "cuMemAddressFree", (CUdeviceptr address, size_t bytes))                                  \
  X(cuMemMap, 10020, "cuMemMap",                                                                                       \
    (CUdeviceptr address, size_t bytes, size_t offset, CUmemHandle handle, unsigned long long flags))                  \
  X(cuMemUnmap, 10020, "cuMemUnmap", (CUdeviceptr address, size_t bytes))                                              \
  X(cuMemSetAccess, 10020, "cuMemSetAccess",                                                                           \
    (CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count))                                  \
  X(cuMemcpyHtoDAsync, 3020, "cuMemcpyHtoDAsync_v2",                                                                   \
    (CUdeviceptr destination, const void* source, size_t bytes, CUstream stream))                                      \
  X(cuMemcpyDtoHAsync, 3020, "cuMemcpyDtoHAsync_v2",                                                                   \
    (void* destination, CUdeviceptr source, size_t bytes, CUstream stream))                                            \
  X(cuMemcpyDtoDAsync, 3020, "cuMemcpyDtoDAsync_v2",                                                                   \
    (CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream))                                      \
  X(cuMemsetD8Async, 3020, "cuMemsetD8Async",                                                                          \
    (CUdeviceptr destination, unsigned char value, size_t count, CUstream stream))                                     \
  X(cuMemsetD16Async, 3020, "cuMemsetD16Async",                                                                        \
    (CUdeviceptr destination, unsigned short value, size_t count, CUstream stream))                                    \
  X(cuMemsetD32Async, 3020, "cuMemsetD32Async",                                                                        \
    (CUdeviceptr destination, unsigned value, size_t count, CUstream stream))                                          \
  X(cuStreamCreateWithPriority, 5050, "cuStreamCreateWithPriority", (CUstream * stream, unsigned flags, int priority)) \
  X(cuStreamDestroy, 4000, "cuStreamDestroy_v2", (CUstream stream))                                                    \
  X(cuStreamSynchronize, 2000, "cuStreamSynchronize", (CUstream stream))                                               \
  X(cuStreamQuery, 2000, "cuStreamQuery", (CUstream stream))                                                           \
  X(cuStreamWaitEvent, 3020, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))                    \
  X(cuLaunchHostFunc, 10000, "cuLaunchHostFunc", (CUstream stream, CUhostFn function, void* argument))                 \
  X(cuEventCreate, 2000, "cuEventCreate", (CUevent * event, unsigned flags))                                           \
  X(cuEventDestroy, 4000, "cuEventDestroy_v2", (CUevent event))                                                        \
  X(cuEventRecord, 2000, "cuEventRecord", (CUevent event, CUstream stream))                                            \
  X(cuEventSynchronize, 2000, "cuEventSynchronize", (CUevent event))                                                   \
  X(cuEventQuery, 2000, "cuEventQuery", (CUevent event))                                                               \
  X(cuEventElapsedTime, 2000, "cuEventElapsedTime", (float* milliseconds, CUevent start, CUevent stop))                \
  X(cuStreamBeginCapture, 10010, "cuStreamBeginCapture_v2", (CUstream stream, int mode))                               \
  X(cuStreamEndCapture, 10000, "cuStreamEndCapture", (CUstream stream, CUgraph * graph))                               \
  X(cuStreamGetCaptureInfo, 11030, "cuStreamGetCaptureInfo_v2",                                                        \
    (CUstream stream, int* status, uint64_t* id, CUgraph* graph, const CUgraphNode** dependencies, size_t* count))     \
  X(cuThreadExchangeStreamCaptureMode, 10010, "cuThreadExchangeStreamCaptureMode", (int* mode))                        \
  X(cuGraphInstantiateWithFlags, 11040, "cuGraphInstantiateWithFlags",                                                 \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                                                     \
  X(cuGraphLaunch, 10000, "cuGraphLaunch", (CUgraphExec exec, CUstream stream))                                        \
  X(cuGraphGetNodes, 10000, "cuGraphGetNodes", (CUgraph graph, CUgraphNode * nodes, size_t * count))                   \
  X(cuGraphDestroy, 10000, "cuGraphDestroy", (CUgraph graph))                                                          \
  X(cuGraphExecDestroy, 10000, "cuGraphExecDestroy", (CUgraphExec exec))                                               \
  X(cuLibraryLoadData, 12000, "cuLibraryLoadData",                                                                     \
    (CUlibrary * library, const void* image, int* jit_options, void** jit_values, unsigned num_jit,                    \
     int* library_options, void** library_values, unsigned num_library))                                               \
  X(cuLibraryUnload, 12000, "cuLibraryUnload", (CUlibrary library))                                                    \
  X(cuLibraryGetKernel, 12000, "cuLibraryGetKernel", (CUkernel * kernel, CUlibrary library, const char* name))         \
  X(cuKernelGetFunction, 12000, "cuKernelGetFunction", (CUfunction * function, CUkernel kernel))                       \
  X(cuFuncGetAttribute, 2020, "cuFuncGetAttribute", (int* value, int attribute, CUfunction function))                  \
  X(cuFuncSetAttribute, 9000, "cuFuncSetAttribute", (CUfunction function, int attribute, int value))                   \
  X(cuOccupancyMaxPotentialBlockSize, 6050, "cuOccupancyMaxPotentialBlockSize",                                        \
    (int* min_grid, int* block, CUfunction function, CUoccupancyB2DSize block_to_shared, size_t dynamic_shared,        \
     int block_limit))                                                                                                 \
  X(cuLaunchKernel, 4000, "cuLaunchKernel",                                                                            \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,       \
     unsigned block_z, unsigned shared_bytes, CUstream stream, void** arguments, void** extra))                        \
  X(cuTensorMapEncodeTiled, 12000, "cuTensorMapEncodeTiled",                                                           \
    (void* map, int type, unsigned rank, void* address, const uint64_t* shape, const uint64_t* strides,                \
     const unsigned* box, const unsigned* steps, int interleave, int swizzle, int promotion, int fill))

// What a driver that serves may lack: null then.
#define GPUKIT_CUDA_OPTIONAL_FUNCTIONS(X)                                                                           \
  X(cuDeviceGetDevResource, 12040, "cuDeviceGetDevResource", (CUdevice device, CUdevResource * resource, int type)) \
  X(cuDevSmResourceSplitByCount, 12040, "cuDevSmResourceSplitByCount",                                              \
    (CUdevResource * groups, unsigned* count, const CUdevResource* input, CUdevResource* remainder, unsigned flags, \
     unsigned min_count))                                                                                           \
  X(cuDevResourceGenerateDesc, 12040, "cuDevResourceGenerateDesc",                                                  \
    (CUdevResourceDesc * description, CUdevResource * resources, unsigned count))                                   \
  X(cuGreenCtxCreate, 12040, "cuGreenCtxCreate",                                                                    \
    (CUgreenCtx * green, CUdevResourceDesc description, CUdevice device, unsigned flags))                           \
  X(cuGreenCtxDestroy, 12040, "cuGreenCtxDestroy", (CUgreenCtx green))                                              \
  X(cuGreenCtxStreamCreate, 12050, "cuGreenCtxStreamCreate",                                                        \
    (CUstream * stream, CUgreenCtx green, unsigned flags, int priority))                                            \
  X(cuOccupancyMaxActiveClusters, 11080, "cuOccupancyMaxActiveClusters",                                            \
    (int* clusters, CUfunction function, const CUlaunchConfig* config))                                             \
  /* Older than this; but only since then can launches that overlap be captured. */                                 \
  X(cuLaunchKernelEx, 12030, "cuLaunchKernelEx",                                                                    \
    (const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra))

struct CudaTable {
#define GPUKIT_CUDA_MEMBER(name, version, symbol, parameters) CUresult(*name) parameters = nullptr;
  GPUKIT_CUDA_FUNCTIONS(GPUKIT_CUDA_MEMBER)
  GPUKIT_CUDA_OPTIONAL_FUNCTIONS(GPUKIT_CUDA_MEMBER)
#undef GPUKIT_CUDA_MEMBER
};

}  // namespace gpukit::driver
