// lstm_sm90: all steps of some items of the batch in one direction by one block or cluster, which keeps the weights.
// The grid is (clusters, directions). A block has `units` of the hidden units. Half a warp has two of them, its lanes
// are the slices of their eight sums; weights of the first kHeld groups of k lie in its registers, of the next in
// shared memory, and the rest is read anew in each step.
//
// h goes to every block of the cluster by stores that its barriers count, in two buffers. A block that has the h of a
// step has heard from every warp of the others that read the buffer which the next h goes to: no other barrier.
#pragma once
#include "gpukit/ops/common/reduce.cuh"
#include "gpukit/ops/hopper/barrier.cuh"
#include "gpukit/ops/hopper/cluster.cuh"
#include "gpukit/ops/recurrent/lstm_step.cuh"

namespace gpukit {

/// Halves of the values go to lanes whose slice has the bit `Mask` or not, which add what they get: the sums of the
/// slices by the tree of neighbours. What no bit is left for stays in v, alike in both lanes where there is one value.
template <int Live, int Mask, int N>
GPUKIT_DEVICE void trade_slices(float (&v)[N]) {
  if constexpr (Mask < kLstmSlices) {
    if constexpr (Live > 1) {
      const bool upper = (threadIdx.x & Mask) != 0;
#pragma unroll
      for (int i = 0; i < Live / 2; ++i) {
        const float keep = upper ? v[i + Live / 2] : v[i], give = upper ? v[i] : v[i + Live / 2];
        v[i] = keep + __shfl_xor_sync(kAllLanes, give, Mask);
      }
      trade_slices<Live / 2, 2 * Mask, N>(v);
    } else {
      v[0] = v[0] + __shfl_xor_sync(kAllLanes, v[0], Mask);
      trade_slices<1, 2 * Mask, N>(v);
    }
  }
}

/// Where trade_slices leaves the sums of kItems items by two units by four gates: the lane's item, unit and first gate.
template <int kItems>
struct SlicePlace {
  static constexpr int kGates = kItems == 4 ? 2 : 1;  // of a lane
  int item, unit, gate;
  GPUKIT_DEVICE explicit SlicePlace(int slice) {
    const int bits[4] = {slice & 1, slice >> 1 & 1, slice >> 2 & 1, slice >> 3 & 1};
    item = kItems == 4 ? 2 * bits[0] + bits[1] : kItems == 2 ? bits[0] : 0;
    unit = kItems == 4 ? bits[2] : kItems == 2 ? bits[1] : bits[0];
    gate = kItems == 4 ? 2 * bits[3] : kItems == 2 ? 2 * bits[2] + bits[3] : 2 * bits[1] + bits[2];
  }
  /// The first lane that has something of an item and a unit: it has gate 0, and makes the cell.
  static GPUKIT_DEVICE constexpr int owner(int item, int unit) {
    return kItems == 4 ? item / 2 + item % 2 * 2 + unit * 4 : kItems == 2 ? item + 2 * unit : unit;
  }
  /// The bits of a lane that say which gate.
  static constexpr int kHigh = kItems == 4 ? 8 : kItems == 2 ? 4 : 2, kLow = kItems == 4 ? 0 : kItems == 2 ? 8 : 4;
};

template <typename T>
struct LstmArrays {
  T *out, *h_n, *c_n;
  const float* gates;
};

/// One thread's part.
template <typename T, int kHeld>
struct LstmThread {
  LstmWeightsView<T> weights;
  float held[kHeld][8][4];  // by unit and gate
  float* cells;             // [items][units]
  const float* biases;      // [units][4]
  Vec<T, 4>* staged;        // [groups][8][threads]
  int slice, unit;          // the first of two, within the block
  int64_t first_unit;       // of the block
  uint32_t there, told;     // states and barriers of the block that this lane sends to
  bool sends;

  GPUKIT_DEVICE LstmThread(const T* w, const LstmWeightStrides& s, int64_t hidden) : weights(w, s, hidden) {}

  GPUKIT_DEVICE Vec<T, 4> quad(int row, int group) const {
    return weights.quad(row % 4, first_unit + unit + row / 4, group * kLstmGroup + 4 * slice);
  }
  GPUKIT_DEVICE void fetch_weights(const LstmShare& share) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j)
#pragma unroll
      for (int row = 0; row < 8; ++row) {
        const Vec<T, 4> w = quad(row, j);
#pragma unroll
        for (int e = 0; e < 4; ++e) held[j][row][e] = load(w.v[e]);
      }
#pragma unroll 1
    for (int j = 0; j < share.staged; ++j)
#pragma unroll
      for (int row = 0; row < 8; ++row) staged[(j * 8 + row) * blockDim.x] = quad(row, kHeld + j);
  }

  template <int kItems>
  static GPUKIT_DEVICE void add(float (&sums)[8 * kItems], int row, const float (&w)[4],
                                const Vec<float, 4> (&h)[kItems]) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
      for (int i = 0; i < kItems; ++i) sums[8 * i + row] = step_sum(sums[8 * i + row], w[e], h[i].v[e]);
  }
  template <int kItems>
  GPUKIT_DEVICE void add_quad(float (&sums)[8 * kItems], int row, const Vec<T, 4>& w,
                              const Vec<float, 4> (&h)[kItems]) const {
    const float values[4] = {load(w.v[0]), load(w.v[1]), load(w.v[2]), load(w.v[3])};
    add<kItems>(sums, row, values, h);
  }
  template <int kItems>
  static GPUKIT_DEVICE void states_of(Vec<float, 4> (&h)[kItems], const float* from, int width) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) h[i] = load_vec<float, 4>(from + i * width);
  }

  /// Eight sums of the slice for each item.
  template <int kItems>
  GPUKIT_DEVICE void multiply(float (&sums)[8 * kItems], const float* h_of_slice, const LstmShare& share) const {
    const int width = share.groups * kLstmGroup;
    Vec<float, 4> h[kItems];
#pragma unroll
    for (int i = 0; i < 8 * kItems; ++i) sums[i] = 0.0f;
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      if (j >= share.groups) break;
      states_of<kItems>(h, h_of_slice + j * kLstmGroup, width);
#pragma unroll
      for (int row = 0; row < 8; ++row) add<kItems>(sums, row, held[j][row], h);
    }
#pragma unroll 1
    for (int j = 0; j < share.staged; ++j) {
      states_of<kItems>(h, h_of_slice + (kHeld + j) * kLstmGroup, width);
#pragma unroll
      for (int row = 0; row < 8; ++row) add_quad<kItems>(sums, row, staged[(j * 8 + row) * blockDim.x], h);
    }
#pragma unroll 1
    for (int j = kHeld + share.staged; j < share.groups; ++j) {
      states_of<kItems>(h, h_of_slice + j * kLstmGroup, width);
#pragma unroll
      for (int row = 0; row < 8; ++row) add_quad<kItems>(sums, row, quad(row, j), h);
    }
  }

  /// One step of items `at` and on of the cluster, item `item` and on of the batch. `arrived` counts the h of this
  /// step; `next` is where the next one's begins in `there`, and `told_next` counts it.
  template <int kItems, typename Wait>
  GPUKIT_DEVICE void advance(const LstmArrays<T>& a, const LstmParams& p, const LstmShare& share, int64_t d,
                             int64_t item, int at, int64_t t, const float* h, uint32_t next, uint32_t told_next,
                             bool last, const Wait& wait) const {
    using Place = SlicePlace<kItems>;
    const Place place(slice);
    const int64_t mine = item + place.item, u = first_unit + unit + place.unit;
    float sums[8 * kItems], inputs[Place::kGates];
#pragma unroll
    for (int g = 0; g < Place::kGates; ++g)
      inputs[g] = u >= p.hidden ? 0.0f
                                : a.gates[(((d * p.batch + mine) * p.steps + t) * 4 + place.gate + g) * p.hidden + u] +
                                      biases[(unit + place.unit) * 4 + place.gate + g];
    wait();
    multiply<kItems>(sums, h + at * share.groups * kLstmGroup + 4 * slice, share);
    trade_slices<8 * kItems, 1>(sums);
    float gates[4];
    gates[0] = lstm_gate(sums[0] + inputs[0], place.gate == 2);
    if constexpr (kItems == 4) {
      gates[1] = lstm_gate(sums[1] + inputs[1], false);
      gates[2] = __shfl_xor_sync(kAllLanes, gates[0], Place::kHigh);
      gates[3] = __shfl_xor_sync(kAllLanes, gates[1], Place::kHigh);
    } else {
      gates[1] = __shfl_xor_sync(kAllLanes, gates[0], Place::kLow);
      gates[2] = __shfl_xor_sync(kAllLanes, gates[0], Place::kHigh);
      gates[3] = __shfl_xor_sync(kAllLanes, gates[0], Place::kHigh | Place::kLow);
    }
    float value = 0.0f;
    if (slice == Place::owner(place.item, place.unit) && u < p.hidden) {
      float* const c = cells + (at + place.item) * share.units + unit + place.unit;
      *c = next_cell<T>(*c, gates[0], gates[1], gates[2]);
      const T state = next_state<T>(*c, gates[3]);
      value = load(state);
      a.out[mine * p.out_batch + t * p.out_step + (d * p.hidden + u) * p.out_unit] = state;
      if (last) {
        a.h_n[d * p.h_n.direction + mine * p.h_n.batch + u * p.h_n.unit] = state;
        a.c_n[d * p.c_n.direction + mine * p.c_n.batch + u * p.c_n.unit] = store<T>(*c);
      }
    }
    if (last) return;
    // Every lane has read h: what another block sends after it has this comes later.
    __syncwarp();
    const int lane = threadIdx.x % 32, first_of_warp = unit - lane / kLstmSlices * 2;
#pragma unroll
    for (int i = 0; i < kItems; i += 2) {
      const int sent = kItems == 1 ? 0 : i + lane / kLstmSlices;
      float four[4];
#pragma unroll
      for (int n = 0; n < 4; ++n)
        four[n] = __shfl_sync(kAllLanes, value, Place::owner(sent, n % 2) + n / 2 * kLstmSlices);
      if (sends && (kItems > 1 || lane < kLstmSlices))
        send_to_block(
            next + 4 * ((at + sent) * share.groups * kLstmGroup + static_cast<int>(first_unit) + first_of_warp),
            four[0], four[1], four[2], four[3], told_next);
    }
  }
};

template <typename T, int kBlocks, int kThreads, int kHeld>
__global__ void __launch_bounds__(kThreads, 1) GPUKIT_CLUSTER(kBlocks)
    lstm_sm90(T* out, T* h_n, T* c_n, const float* gates, const T* w_forward, const T* w_backward,
              const T* b_ih_forward, const T* b_ih_backward, const T* b_hh_forward, const T* b_hh_backward, const T* h0,
              const T* c0, const __grid_constant__ LstmParams p, const __grid_constant__ LstmShare share) {
  extern __shared__ __align__(16) unsigned char lstm_memory[];
  __shared__ __align__(8) uint64_t arrived[2];
  const int block = blockIdx.x % kBlocks, width = share.groups * kLstmGroup;
  const int lane = threadIdx.x % 32;
  const int64_t first_item = int64_t{blockIdx.x} / kBlocks * share.items, d = blockIdx.y,
                first_unit = int64_t{block} * share.units;
  const int items = static_cast<int>(at_most(share.items, p.batch - first_item));
  const LstmWeightStrides s = p.weights[d];
  const T* const b_ih = d == 0 ? b_ih_forward : b_ih_backward;
  const T* const b_hh = d == 0 ? b_hh_forward : b_hh_backward;

  float* const states = reinterpret_cast<float*>(lstm_memory);
  float* const cells = states + 2 * share.items * width;
  float* const biases = cells + share.items * share.units;
  for (int i = threadIdx.x; i < 2 * items * width; i += blockDim.x) {
    const int64_t item = first_item + i / width, u = i % width;
    const bool given = i < items * width && u < p.hidden && h0 != nullptr;
    states[(i < items * width ? 0 : (share.items - items) * width) + i] =
        given ? load(h0[d * p.h0.direction + item * p.h0.batch + u * p.h0.unit]) : 0.0f;
  }
  for (int i = threadIdx.x; i < items * share.units; i += blockDim.x) {
    const int64_t item = first_item + i / share.units, u = first_unit + i % share.units;
    const bool given = u < p.hidden && c0 != nullptr;
    cells[i] = given ? load(c0[d * p.c0.direction + item * p.c0.batch + u * p.c0.unit]) : 0.0f;
  }
  for (int i = threadIdx.x; i < 4 * share.units; i += blockDim.x) {
    const int64_t u = first_unit + i / 4;
    biases[i] = u < p.hidden ? lstm_bias(b_ih, b_hh, s, i % 4 * p.hidden + u) : 0.0f;
  }

  LstmThread<T, kHeld> mine(d == 0 ? w_forward : w_backward, s, p.hidden);
  mine.cells = cells;
  mine.biases = biases;
  mine.staged = reinterpret_cast<Vec<T, 4>*>(biases + 4 * share.units) + threadIdx.x;
  mine.slice = lane % kLstmSlices;
  mine.unit = threadIdx.x / kLstmSlices * 2;
  mine.first_unit = first_unit;
  mine.fetch_weights(share);

  // A warp makes four units, and every block that has some wants them.
  const uint32_t barriers = static_cast<uint32_t>(__cvta_generic_to_shared(arrived));
  const int receivers = static_cast<int>((p.hidden + share.units - 1) / share.units);
  const int bytes = items * 16 * static_cast<int>((p.hidden + 3) / 4);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      barrier_init(barriers + 8 * b, 1);
      barrier_expect(barriers + 8 * b, bytes);
    }
    barrier_publish();
  }
  sync_cluster<kBlocks>();
  if (first_unit + threadIdx.x / 32 * 4 >= p.hidden || threadIdx.x / 32 * 4 >= share.units) return;
  mine.sends = mine.slice < receivers;
  mine.there = in_block(static_cast<uint32_t>(__cvta_generic_to_shared(states)), mine.sends ? mine.slice : block);
  mine.told = in_block(barriers, mine.sends ? mine.slice : block);
  const LstmArrays<T> arrays{out, h_n, c_n, gates};
#pragma unroll 1
  for (int64_t step = 0; step < p.steps; ++step) {
    const int64_t t = p.reversed[d] ? p.steps - 1 - step : step;
    const int now = step & 1;
    const float* const h = states + now * share.items * width;
    const uint32_t next = mine.there + 4 * (1 - now) * share.items * width, told = mine.told + 8 * (1 - now);
    const bool last = step + 1 == p.steps;
    int at = 0;
    const auto wait = [&] {
      if (at > 0 || step == 0) return;
      wait_for_blocks(barriers + 8 * now, (step - 1) >> 1 & 1);
      if (threadIdx.x == 0 && step + 2 < p.steps) barrier_expect(barriers + 8 * now, bytes);
    };
    if constexpr (kThreads <= 256) {  // the sums of four find registers
#pragma unroll 1
      for (; at + 4 <= items; at += 4)
        mine.template advance<4>(arrays, p, share, d, first_item + at, at, t, h, next, told, last, wait);
    }
#pragma unroll 1
    for (; at + 2 <= items; at += 2)
      mine.template advance<2>(arrays, p, share, d, first_item + at, at, t, h, next, told, last, wait);
    if (at < items) mine.template advance<1>(arrays, p, share, d, first_item + at, at, t, h, next, told, last, wait);
  }
}

}  // namespace gpukit
