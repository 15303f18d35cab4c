// What plans of matrix products know of the chip and the session.
#pragma once

namespace gpukit::cuda {

/// Of these only shared_per_block may change the bits of a result, those of one row.
struct MatmulChip {
  int sm_count, shared_per_block, sm_major;
};

}  // namespace gpukit::cuda
