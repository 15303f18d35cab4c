#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/sort/sort_impl.h"
#include "gpukit/ops/sort/sort_params.cuh"

namespace gpukit::cuda {

namespace {

enum SortKernel { sort_short, make_keys, count, scan, move, widen, search };
const jit::KernelSet kernels("gpukit/ops/sort/sort.cuh",
                             {"gpukit::argsort_short<{T}>", "gpukit::radix_keys<{T}>", "gpukit::radix_count<{T}>",
                              "gpukit::radix_scan<{T}>", "gpukit::radix_move<{T}>", "gpukit::write_order<{T}>",
                              "gpukit::search_sorted<{T}>"},
                             {DType::uint8, DType::uint16, DType::uint32, DType::uint64});

unsigned checked_grid(const char* op, int64_t blocks) {
  if (blocks > INT32_MAX) throw ShapeError(op, "x", "need at most 2^31 - 1 blocks", std::to_string(blocks));
  return static_cast<unsigned>(blocks);
}

}  // namespace

void argsort(const Array& order, const Array& bits, const KeyRule& rule) {
  const Device device = bits.device();
  const DType width = bits.dtype();
  const int64_t rows = bits.shape(0), n = bits.shape(1), size = bits.size();
  if (n <= kShortRow) {
    jit::launch(kernels.get(sort_short, width), device, {.grid_x = checked_grid("sort", rows), .block_x = kSortThreads},
                write(order), read(bits), n, static_cast<int32_t>(ceil_power(n)), rule);
    return;
  }
  if (n > INT32_MAX) throw ShapeError("sort", "x", "have less than 2^31 elements along the axis", std::to_string(n));
  const int64_t tiles = ceil_div(n, kSortTile);
  Temporaries temporaries("sort");
  Array keys = temporaries.empty_like(bits), to_keys = temporaries.empty_like(bits);
  Array places = temporaries.empty(bits.shape(), DType::uint32, device);
  Array to_places = temporaries.empty(bits.shape(), DType::uint32, device);
  const Array counts = temporaries.empty({rows, kSortDigits, tiles}, DType::uint32, device);
  const jit::LaunchConfig each{.grid_x = checked_grid("sort", ceil_div(size, kSortThreads)), .block_x = kSortThreads};
  const jit::LaunchConfig tiled{.grid_x = checked_grid("sort", rows * tiles), .block_x = kSortThreads};
  const jit::LaunchConfig by_row{.grid_x = checked_grid("sort", rows), .block_x = kSortScanThreads};
  jit::launch(kernels.get(make_keys, width), device, each, write(keys), write(places), read(bits), size, n, rule);
  for (int32_t shift = 0; shift < 8 * itemsize(width); shift += 8) {
    jit::launch(kernels.get(count, width), device, tiled, write(counts), read(keys), n, tiles, shift);
    jit::launch(kernels.get(scan, width), device, by_row, write(counts), kSortDigits * tiles);
    jit::launch(kernels.get(move, width), device, tiled, write(to_keys), write(to_places), read(keys), read(places),
                read(counts), n, tiles, shift);
    std::swap(keys, to_keys);
    std::swap(places, to_places);
  }
  jit::launch(kernels.get(widen, width), device, each, write(order), read(places), size);
}

void searchsorted(const Array& out, const Array& sorted, const Array& values, const Array& sorter, bool right,
                  const KeyRule& rule) {
  const jit::LaunchConfig each{.grid_x = checked_grid("searchsorted", ceil_div(values.size(), kSortThreads)),
                               .block_x = kSortThreads};
  jit::launch(kernels.get(search, sorted.dtype()), out.device(), each, write(out), read(sorted), read(values),
              read_if(sorter), sorted.size(), values.size(), int32_t{right}, rule);
}

}  // namespace gpukit::cuda
