// One block factors one matrix after another, each in shared memory where it fits, else in its piece of `work`.
#pragma once
#include "gpukit/ops/linalg/factor_block.cuh"
#include "gpukit/ops/linalg/orthogonal.cuh"

namespace gpukit::linalg {

inline constexpr int kFactorThreads = 256;

struct Block {
  GPUKIT_DEVICE int64_t row() const { return threadIdx.y; }
  GPUKIT_DEVICE int64_t rows() const { return blockDim.y; }
  GPUKIT_DEVICE int64_t col() const { return threadIdx.x; }
  GPUKIT_DEVICE int64_t cols() const { return blockDim.x; }
  GPUKIT_DEVICE int64_t lane() const { return threadIdx.y * blockDim.x + threadIdx.x; }
  GPUKIT_DEVICE int64_t lanes() const { return blockDim.x * blockDim.y; }
  GPUKIT_DEVICE bool wanted() const { return true; }
  GPUKIT_DEVICE void sync() const { __syncthreads(); }
};

template <typename T>
GPUKIT_DEVICE typename Computed<T>::type* work_memory(T* work, const FactorParams& p) {
  using W = typename Computed<T>::type;
  return p.in_shared ? reinterpret_cast<W*>(factor_shared) : reinterpret_cast<W*>(work) + blockIdx.x * p.work;
}
template <typename T>
__global__ void __launch_bounds__(kFactorThreads, 1) cholesky(T* out, const T* x, T* work, FactorParams p) {
  using W = typename Computed<T>::type;
  W* memory = work_memory(work, p);
  for (int64_t i = blockIdx.x; i < p.batch; i += gridDim.x) {
    cholesky_matrix<W>(Block{}, piece(out, i * p.n * p.n), piece(x, i * p.n * p.n), memory, p);
    __syncthreads();
  }
}
template <typename T>
__global__ void __launch_bounds__(kFactorThreads, 1) solve(T* out, const T* x, const T* b, T* work, FactorParams p) {
  using W = typename Computed<T>::type;
  W* memory = work_memory(work, p);
  for (int64_t i = blockIdx.x; i < p.batch; i += gridDim.x) {
    solve_matrix<W>(Block{}, piece(out, i * p.n * p.k), piece(x, i * p.n * p.n), piece(b, i * p.n * p.k), memory, p);
    __syncthreads();
  }
}
template <typename T>
__global__ void __launch_bounds__(kFactorThreads, 1)
    determinants(T* det, T* sign, Real<typename Computed<T>::type>* logarithm, const T* x, T* work, FactorParams p) {
  using W = typename Computed<T>::type;
  W* memory = work_memory(work, p);
  for (int64_t i = blockIdx.x; i < p.batch; i += gridDim.x) {
    determinant<W>(Block{}, piece(det, i), piece(sign, i), logarithm == nullptr ? nullptr : logarithm + i,
                   piece(x, i * p.n * p.n), memory, p);
    __syncthreads();
  }
}
template <typename T>
__global__ void __launch_bounds__(kFactorThreads, 1) qr(T* q, T* r, const T* x, T* work, FactorParams p) {
  using W = typename Computed<T>::type;
  W* memory = work_memory(work, p);
  for (int64_t i = blockIdx.x; i < p.batch; i += gridDim.x) {
    qr_matrix<W>(Block{}, piece(q, i * p.m * p.k), piece(r, i * p.k * p.n), piece(x, i * p.m * p.n), memory, p);
    __syncthreads();
  }
}
template <typename T>
__global__ void __launch_bounds__(kFactorThreads, 1)
    eigh(Real<typename Computed<T>::type>* values, T* vectors, const T* x, T* work, FactorParams p) {
  using W = typename Computed<T>::type;
  W* memory = work_memory(work, p);
  for (int64_t i = blockIdx.x; i < p.batch; i += gridDim.x) {
    eigh_matrix<W>(Block{}, values + i * p.n, piece(vectors, i * p.n * p.n), piece(x, i * p.n * p.n), memory, p);
    __syncthreads();
  }
}
template <typename T>
__global__ void __launch_bounds__(kFactorThreads, 1)
    svd(Real<typename Computed<T>::type>* values, T* u, T* vh, const T* x, T* work, FactorParams p) {
  using W = typename Computed<T>::type;
  const int64_t shorter = p.m < p.n ? p.m : p.n;
  const int64_t of_u = p.m * (p.m < p.n ? p.m : p.k), of_vh = p.n * (p.m < p.n ? p.k : p.n);
  W* memory = work_memory(work, p);
  for (int64_t i = blockIdx.x; i < p.batch; i += gridDim.x) {
    svd_matrix<W>(Block{}, values + i * shorter, piece(u, i * of_u), piece(vh, i * of_vh), piece(x, i * p.m * p.n),
                  memory, p);
    __syncthreads();
  }
}

}  // namespace gpukit::linalg
