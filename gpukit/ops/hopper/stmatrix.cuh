// 8 x 8 matrices of 16-bit elements from registers to shared memory, and transposed in registers (sm_90).
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// Four 8 x 8 matrices of 16-bit elements to shared memory; lane i gives the address of row i % 8 of matrix i / 8.
GPUKIT_DEVICE void store_matrices(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
               "r"(m2), "r"(m3)
               : "memory");
}
GPUKIT_DEVICE void store_matrices_transposed(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0),
               "r"(m1), "r"(m2), "r"(m3)
               : "memory");
}
/// An 8 x 8 matrix of 16-bit elements, a pair of row lane / 4 in each lane, transposed.
GPUKIT_DEVICE uint32_t turn_matrix(uint32_t pair) {
  uint32_t turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
  return turned;
}

}  // namespace gpukit
