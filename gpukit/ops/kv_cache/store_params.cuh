// What store_tokens is told. Strides are in elements. Shared by host and kernels.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

struct StoreParams {
  int64_t tokens, heads, dim;
  int64_t pages, page_size;
  int64_t page, slot, head, step;  // of the cache
  int64_t from_token, from_head, from_step;
  int64_t slot_step;
  int32_t sequential;
  int32_t fault_op;
};

}  // namespace gpukit
