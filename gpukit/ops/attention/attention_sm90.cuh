// attention_sm90: attention of 16-bit data on Hopper. A block stays on its multiprocessor and takes unit after unit of
// work: up to 128 rows, which are tokens by query heads of one KV head. One warp loads queries, keys and values by TMA
// (attention_sm90_load.cuh). Two warpgroups of 64 rows each multiply by wgmma, in turns: one asks for the scores of its
// next tile and the values of this one, and takes exponentials while those and the other's products are made.
//
// Its sums have the order of attention_sm80 and so its bits: tiles of 64 keys in pieces, each a softmax of its own.
#pragma once
#include "gpukit/ops/attention/attention_sm80_tile.cuh"
#include "gpukit/ops/attention/attention_sm90_load.cuh"
#include "gpukit/ops/attention/attention_softmax.cuh"
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/hopper/wgmma.cuh"

namespace gpukit {

/// What a warpgroup knows of its unit: a copy, or what lies in shared memory until the queries are released.
template <bool kStays>
struct Sm90JobView {
  using Type = const Sm90Job;
};
template <>
struct Sm90JobView<true> {
  using Type = const Sm90Job&;
};

/// kShaped: scores are more than products times p.scale.
template <typename T, int kDim, bool kShaped>
struct Sm90Attention : Sm90Block<kDim> {
  using Block = Sm90Block<kDim>;
  using Block::kPanels, Block::kPiece;
  using Block::lane, Block::stage_of, Block::phase_of, Block::k_at, Block::v_at;
  using Block::p, Block::g, Block::s, Block::memory;
  static constexpr int kSteps = kDim / 16;
  static constexpr bool kWide = sm90_is_wide(kDim);

  float4* totals;                 // the block's sums of the pieces before
  const float *k_scale, *slopes;  // of KV heads and of heads, or null

  struct Row {
    int32_t begin, end;  // keys that it sees
    int64_t token;
    int head;
    bool used;
    int32_t position;
    float slope;
  };
  GPUKIT_DEVICE Row find_row(const Sm90Job& job, int r) const {
    const int t = r / g.heads, head = job.head + r % g.heads;
    if (t < job.start || t >= job.stop || head >= (job.kv_head + 1) * p.group) return {};
    const Sm90Token& token = s.tokens[t];
    const float slope = kShaped && slopes != nullptr ? slopes[head * p.slope_step] : 0.0f;
    return {token.begin, token.end, job.first_token + t, head, true, token.position, slope};
  }

  /// Of a warpgroup: in registers, or (wide) in shared memory.
  struct Queries {
    uint32_t registers[kWide ? 1 : kSteps][4];
    uint32_t shared;
  };
  GPUKIT_DEVICE void read_queries(Queries& q, int group, int first_row) const {
    if constexpr (kWide) {
      q.shared = memory + group * kSm90GroupRows * 128;
    } else {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        load_matrices(q.registers[step], fragment_at(memory, kSm90QueryPanel, first_row, step, lane_offset()));
    }
  }
  GPUKIT_DEVICE static void multiply_keys(float (&x)[8][4], const Queries& q, uint32_t keys) {
    auto& sums = reinterpret_cast<float(&)[32]>(x);
    const uint64_t b = tile_descriptor(keys, 16, 1024);
    [[maybe_unused]] const uint64_t a = tile_descriptor(q.shared, 16, 1024);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint32_t in_panel = step % 4 * 32, of_keys = step / 4 * kSm90KeyPanel + in_panel;
      if constexpr (kWide)
        Wgmma<T, 64>::template run<0, 0>(sums, tile_descriptor_at(a, step / 4 * kSm90QueryPanel + in_panel),
                                         tile_descriptor_at(b, of_keys), step);
      else
        WgmmaTaken<T, 64>::run(sums, q.registers[step], tile_descriptor_at(b, of_keys), step);
    }
    wgmma_commit();
  }
  /// add: 0 where a piece begins, whose sums begin anew.
  GPUKIT_DEVICE static void multiply_values(float (&sums)[kDim / 8][4], const uint32_t (&weights)[4][4],
                                            uint32_t values, int add) {
    auto& flat = reinterpret_cast<float(&)[kDim / 2]>(sums);
    const uint64_t b = tile_descriptor(values, kSm90KeyPanel, 1024);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      WgmmaTaken<T, kDim, 1>::run(flat, weights[i], tile_descriptor_at(b, i * 2048), i == 0 ? add : 1);
    wgmma_commit();
  }

  /// Keys that a row does not see get no score.
  GPUKIT_DEVICE static void hide_keys(float (&x)[8][4], int half, const Row& row, int tile,
                                      const uint32_t (&readable)[2]) {
    const int first = tile * kKeyTile;
    if (row.begin <= first && first + kKeyTile <= row.end && (readable[0] & readable[1]) == ~0u) return;
    const int own = lane() % 4 * 2, low = row.begin - first - own, high = row.end - first - own;
    const uint32_t bits[2] = {readable[0] >> own, readable[1] >> own};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int key = 8 * i + e;
        if (key < low || key >= high || (bits[key / 32] >> key % 32 & 1) == 0) x[i][2 * half + e] = no_score();
      }
    }
  }
  /// Products become scores, in powers of 2.
  GPUKIT_DEVICE void shape_scores(float (&x)[8][4], int half, const Row& row, int tile, float key_scale) const {
    const auto each = [&](auto&& score) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        float& value = x[i / 2][2 * half + i % 2];
        value = score(value, i / 2 * 8 + i % 2);
      }
    };
    each([&](float value, int) { return value * key_scale * p.scale; });
    if (p.softcap > 0.0f) each([&](float value, int) { return capped(value, p.softcap); });
    const int distance = row.position - tile * kKeyTile - lane() % 4 * 2;
    if (slopes != nullptr)
      each([&](float value, int key) { return sloped(value, row.slope, static_cast<float>(distance - key)); });
    each([&](float value, int) { return value * kPowerOfE; });
  }
  GPUKIT_DEVICE void add_tile(RowState (&state)[2], float (&factor)[2], float (&x)[8][4], const Row (&rows)[2],
                              int tile, const uint32_t (&readable)[2], float key_scale) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (kShaped) shape_scores(x, half, rows[half], tile, key_scale);
      hide_keys(x, half, rows[half], tile, readable);
      factor[half] = add_scores(state[half], x, half, g.power);
    }
  }
  GPUKIT_DEVICE static void pack_weights(uint32_t (&weights)[4][4], const float (&x)[8][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) weights[i][j] = pack<T>(x[2 * i + j / 2][j % 2 * 2], x[2 * i + j / 2][j % 2 * 2 + 1]);
  }

  /// Values of keys that no row of the unit sees may be anything, and 0 times infinity is not 0. Both warpgroups come
  /// here with every tile: they share the work.
  GPUKIT_DEVICE void clear_values(uint32_t turn, int tile, const Sm90Job& job) const {
    const int first = job.begin - tile * kKeyTile, last = job.end - tile * kKeyTile;
    if (first <= 0 && last >= kKeyTile) return;
    constexpr uint32_t kZeros[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (int unit = static_cast<int>(threadIdx.x); unit < kKeyTile * kPanels * 8; unit += 256) {
      const int key = unit / (kPanels * 8), chunk = unit % (kPanels * 8);
      if (key < first || key >= last)
        store_shared(v_at(turn) + chunk / 8 * kSm90KeyPanel + key * 128 + chunk % 8 * 16, kZeros);
    }
    shared_publish();
    named_barrier(1, 256);
  }

  GPUKIT_DEVICE float4& total_at(int group, int i) const {
    return totals[(group * (kDim / 8) + i) * 128 + threadIdx.x % 128];
  }
  /// A piece's sums become part of those before. The last ones stay in `sums`.
  GPUKIT_DEVICE void merge_piece(float (&sums)[kDim / 8][4], const RowState (&state)[2], RowState (&total)[2],
                                 int group, bool first, bool last) const {
    const Merge m[2] = {merge_powers(total[0], state[0], g.power), merge_powers(total[1], state[1], g.power)};
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      float4 before = {0.0f, 0.0f, 0.0f, 0.0f};
      if (!first) before = total_at(group, i);
      sums[i][0] = fmaf(sums[i][0], m[0].fresh, before.x * m[0].old);
      sums[i][1] = fmaf(sums[i][1], m[0].fresh, before.y * m[0].old);
      sums[i][2] = fmaf(sums[i][2], m[1].fresh, before.z * m[1].old);
      sums[i][3] = fmaf(sums[i][3], m[1].fresh, before.w * m[1].old);
      if (!last) total_at(group, i) = {sums[i][0], sums[i][1], sums[i][2], sums[i][3]};
    }
  }

  GPUKIT_DEVICE void write_piece(const float (&sums)[kDim / 8][4], const RowState (&state)[2], const Row (&rows)[2],
                                 float* pieces, int num_pieces, int piece) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!rows[half].used) continue;
      float* to = piece_of(pieces, p, rows[half].token, rows[half].head, num_pieces, piece);
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
        const int dim = 8 * i + lane() % 4 * 2;
        if (dim < p.dim) to[dim] = sums[i][2 * half];
        if (dim + 1 < p.dim) to[dim + 1] = sums[i][2 * half + 1];
      }
      if (lane() % 4 != 0) continue;
      to[p.dim] = state[half].most;
      to[p.dim + 1] = state[half].sum;
    }
  }
  /// Where byte `at` of what this warp stages lies: over its own totals, which are no longer needed.
  GPUKIT_DEVICE uint32_t staged_at(int at) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return shared_address(totals) + (warp / 4 * (kDim / 8) + at / 512) * 2048 + warp % 4 * 512 + at % 512;
  }
  /// 16 rows of a warp by 16 bytes at a time, through shared memory. `places`: of this lane's two rows in out, or -1.
  GPUKIT_DEVICE void write_rows(const float (&sums)[kDim / 8][4], const float (&inverse)[2], const int64_t (&places)[2],
                                T* out) const {
    constexpr int kChunks = kDim / 8, kRowBytes = kDim * 2 + 16;  // padded: 8 rows lie in different banks
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i)
        store_word(
            staged_at((lane() / 4 + half * 8) * kRowBytes + i * 16) + lane() % 4 * 4,
            pack<T>(finish_row(sums[i][2 * half], inverse[half]), finish_row(sums[i][2 * half + 1], inverse[half])));
    __syncwarp();
#pragma unroll 2
    for (int unit = lane(); unit < 16 * kChunks; unit += 32) {
      const int row = unit / kChunks, chunk = unit % kChunks;
      const int64_t first = __shfl_sync(0xffffffffu, places[0], row % 8 * 4);
      const int64_t second = __shfl_sync(0xffffffffu, places[1], row % 8 * 4);
      const int64_t place = row < 8 ? first : second;
      if (place < 0 || chunk * 8 >= p.dim) continue;
      uint32_t words[4];
      load_shared(words, staged_at(row * kRowBytes + chunk * 16));
      *reinterpret_cast<uint4*>(out + place + chunk * 8) = {words[0], words[1], words[2], words[3]};
    }
  }
  GPUKIT_DEVICE void write_results(const float (&sums)[kDim / 8][4], const RowState (&total)[2], const Row (&rows)[2],
                                   T* out, float* lse) const {
    const float inverse[2] = {row_inverse(total[0]), row_inverse(total[1])};
    int64_t places[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Row& row = rows[half];
      places[half] = row.used ? row_place(p, p.out, row.token, row.head) : -1;
      if (lse != nullptr && row.used && lane() % 4 == 0)
        lse[row_place(p, p.lse, row.token, row.head)] = power_lse(total[half], g.power);
    }
    if constexpr (!kWide)
      if (g.aligned_out != 0) return write_rows(sums, inverse, places, out);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!rows[half].used) continue;
      T* to = out + places[half];
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
        const int dim = 8 * i + lane() % 4 * 2;
        const float low = finish_row(sums[i][2 * half], inverse[half]);
        const float high = finish_row(sums[i][2 * half + 1], inverse[half]);
        if (g.aligned_out != 0) {
          if (dim < p.dim) *reinterpret_cast<uint32_t*>(to + dim) = pack<T>(low, high);
        } else {
          if (dim < p.dim) to[dim * p.out.step] = store<T>(low);
          if (dim + 1 < p.dim) to[(dim + 1) * p.out.step] = store<T>(high);
        }
      }
    }
  }

  GPUKIT_DEVICE static void release(uint64_t& empty) {
    __syncwarp();
    if (lane() == 0) barrier_arrive(shared_address(&empty));
  }
  GPUKIT_DEVICE void wait_keys(uint32_t turn) const {
    barrier_wait(shared_address(&s.k_full[stage_of(turn)]), phase_of(turn));
  }
  GPUKIT_DEVICE void wait_values(uint32_t turn, int tile, const Sm90Job& job) const {
    barrier_wait(shared_address(&s.v_full[stage_of(turn)]), phase_of(turn));
    clear_values(turn, tile, job);
  }
  // The warpgroups ask for products in turns, one for each tile of the unit: one's exponentials are under the other's
  // products.
  GPUKIT_DEVICE static void take_turn(int group) { named_barrier(2 + group, 256); }
  GPUKIT_DEVICE static void pass_turn(int group) { named_arrive(2 + (group ^ 1), 256); }

  /// A tile of which this warpgroup's rows see nothing.
  GPUKIT_DEVICE void skip_tile(uint32_t turn, int tile, int group, const Sm90Job& job) const {
    take_turn(group);
    pass_turn(group);
    wait_keys(turn);
    release(s.k_empty[stage_of(turn)]);
    wait_values(turn, tile, job);
    release(s.v_empty[stage_of(turn)]);
  }

  GPUKIT_DEVICE void consume(T* out, float* lse, float* pieces) const {
    const int group = static_cast<int>(threadIdx.x) / 128;
    const int first_row = group * kSm90GroupRows + static_cast<int>(threadIdx.x) % 128 / 32 * 16;
    uint32_t turn = 0;
    if (group == 1) pass_turn(group);
    for (int jobs = 0;; ++jobs) {
      barrier_wait(shared_address(&s.q_full), jobs % 2);
      typename Sm90JobView<kWide>::Type job = s.job;
      if (job.last != 0) break;
      const float key_scale = kShaped && k_scale != nullptr ? k_scale[job.kv_head * p.cache.k.scale_head] : 1.0f;
      Row rows[2] = {find_row(job, first_row + lane() / 4), find_row(job, first_row + lane() / 4 + 8)};
      Queries q;
      read_queries(q, group, first_row);
      const int32_t group_begin = s.job.group_begin[group], group_end = s.job.group_end[group];
      if constexpr (!kWide) release(s.q_empty);

      float sums[kDim / 8][4] = {};
      RowState total[2] = {no_keys(), no_keys()};
      int tile = job.begin / kKeyTile;
      const int stop = (job.end + kKeyTile - 1) / kKeyTile;
      const int begin = group_begin / kKeyTile;
      const int end = group_begin < group_end ? (group_end + kKeyTile - 1) / kKeyTile : 0;
      if (begin < end) {
        for (; tile < begin; ++tile, ++turn) skip_tile(turn, tile, group, job);
        float x[8][4], factor[2];
        uint32_t weights[4][4];
        RowState state[2] = {no_keys(), no_keys()};
        uint32_t readable[2];
        wait_keys(turn);
        take_turn(group);
        multiply_keys(x, q, k_at(turn));
        pass_turn(group);
        readable[0] = s.readable[stage_of(turn)][0], readable[1] = s.readable[stage_of(turn)][1];
        wgmma_wait<0>();
        keep_sums(reinterpret_cast<float(&)[32]>(x));
        release(s.k_empty[stage_of(turn)]);
        add_tile(state, factor, x, rows, tile, readable, key_scale);
        pack_weights(weights, x);
        bool first_piece = true;
        for (; tile + 1 < end; ++tile, ++turn) {
          wait_values(turn, tile, job);
          wait_keys(turn + 1);
          take_turn(group);
          multiply_keys(x, q, k_at(turn + 1));
          multiply_values(sums, weights, v_at(turn), tile * kKeyTile % kPiece);
          pass_turn(group);
          readable[0] = s.readable[stage_of(turn + 1)][0], readable[1] = s.readable[stage_of(turn + 1)][1];
          wgmma_wait<1>();
          keep_sums(reinterpret_cast<float(&)[32]>(x));
          release(s.k_empty[stage_of(turn + 1)]);
          const bool ends = (tile + 1) * kKeyTile % kPiece == 0;
          RowState done[2] = {state[0], state[1]};
          if (ends) state[0] = state[1] = no_keys();
          add_tile(state, factor, x, rows, tile + 1, readable, key_scale);
          finish_before_wait(fminf(state[0].sum, state[1].sum));
          wgmma_wait<0>();
          keep_sums(reinterpret_cast<float(&)[kDim / 2]>(sums));
          release(s.v_empty[stage_of(turn)]);
          if (ends) {
            end_piece(done);
            merge_piece(sums, done, total, group, first_piece, false);
            first_piece = false;
          } else {
            scale_rows(sums, factor);
          }
          pack_weights(weights, x);
        }
        wait_values(turn, tile, job);
        multiply_values(sums, weights, v_at(turn), tile * kKeyTile % kPiece);
        wgmma_wait<0>();
        keep_sums(reinterpret_cast<float(&)[kDim / 2]>(sums));
        release(s.v_empty[stage_of(turn)]);
        ++tile, ++turn;
        end_piece(state);
        // Found again, they need no registers on the way.
        if constexpr (kWide)
          for (int half = 0; half < 2; ++half) rows[half] = find_row(job, first_row + half * 8 + lane() / 4);
        if (g.split != 0)
          write_piece(sums, state, rows, pieces, g.pieces, job.piece);
        else
          merge_piece(sums, state, total, group, first_piece, true);
      }
      for (; tile < stop; ++tile, ++turn) skip_tile(turn, tile, group, job);
      if constexpr (kWide) release(s.q_empty);
      if (g.split == 0) write_results(sums, total, rows, out, lse);
    }
    if (group == 0) take_turn(group);
  }
};

/// kDim: the head dim rounded up to 64, 96, 128, 192 or 256. Grid: as many blocks as stay on the chip. Shared memory:
/// sm90_places(). `totals`, where wide: kSm90Rows rows of kDim floats a block.
template <typename T, int kDim, bool kShaped>
__global__ void __launch_bounds__(kSm90Threads, 1)
    attention_sm90(T* out, float* lse, float* pieces, float* totals, const __grid_constant__ TileMap q_map,
                   const __grid_constant__ TileMap k_map, const __grid_constant__ TileMap v_map, const int32_t* tables,
                   const int32_t* lengths_or_ids, const int32_t* lengths_or_positions, const float* k_scale,
                   const float* slopes, Fault* fault, const __grid_constant__ AttentionParams p,
                   const __grid_constant__ Sm90Grid g) {
  extern __shared__ __align__(1024) uint4 memory[];
  using Attention = Sm90Attention<T, kDim, kShaped>;
  using Block = Sm90Block<kDim>;
  char* start = reinterpret_cast<char*>(memory);
  auto& s = *reinterpret_cast<Sm90Shared*>(start + Block::kPlaces.shared);
  float* const sums = Attention::kWide ? totals + int64_t{blockIdx.x} * kSm90Rows * kDim
                                       : reinterpret_cast<float*>(start + Block::kPlaces.totals);
  const Block block{p, g, s, shared_address(start)};
  let_next_start();
  if (threadIdx.x == 0) {
    block.init_barriers();
    tile_prefetch(&q_map);
    tile_prefetch(&k_map);
    tile_prefetch(&v_map);
  }
  __syncthreads();
  wait_for_previous();
  if (threadIdx.x >= 256) {
    give_registers<56>();
    if (threadIdx.x < 288)
      Sm90Loader<kDim>{block}.produce(&q_map, &k_map, &v_map, tables, lengths_or_ids, lengths_or_positions, fault);
  } else {
    take_registers<224>();
    Attention{block, reinterpret_cast<float4*>(sums), k_scale, slopes}.consume(out, lse, pieces);
  }
}

}  // namespace gpukit
