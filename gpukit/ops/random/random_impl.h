// Between random.cpp and the two backends: parameters are already checked and rounded, `out` is row-major and not
// empty.
#pragma once

#include "gpukit/ops/common/philox.cuh"
#include "gpukit/ops/random/random.h"

namespace gpukit {

/// float32 for the dtypes computed in it.
template <typename C>
struct NormalParameters {
  C mean, std;
};

namespace cpu {
void random_uniform(const Array& out, random::State state, const random::UniformRange<float>& range);
void random_uniform(const Array& out, random::State state, const random::UniformRange<double>& range);
void random_normal(const Array& out, random::State state, const NormalParameters<float>& parameters);
void random_normal(const Array& out, random::State state, const NormalParameters<double>& parameters);
void random_integer(const Array& out, random::State state, const random::IntegerRange& range);
}  // namespace cpu

namespace cuda {
void random_uniform(const Array& out, random::State state, const random::UniformRange<float>& range);
void random_uniform(const Array& out, random::State state, const random::UniformRange<double>& range);
void random_normal(const Array& out, random::State state, const NormalParameters<float>& parameters);
void random_normal(const Array& out, random::State state, const NormalParameters<double>& parameters);
void random_integer(const Array& out, random::State state, const random::IntegerRange& range);
}  // namespace cuda

}  // namespace gpukit
