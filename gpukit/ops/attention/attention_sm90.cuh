// attention_sm90: attention of 16-bit data on Hopper. A block stays on its multiprocessor and takes unit after unit of
// work: up to 128 rows, which are tokens by query heads of one KV head. One warp loads queries, keys and values by TMA;
// two warpgroups of 64 rows each multiply by wgmma: scores of the next tile, then values of this one, and take
// exponentials while values are multiplied. Neither waits for the other, so that one's exponentials are under the
// other's products.
//
// Its sums have the order of attention_sm80 and so its bits: tiles of 64 keys in pieces of 512, each a softmax of its
// own.
#pragma once
#include "gpukit/ops/attention/attention_sm80_tile.cuh"
#include "gpukit/ops/attention/attention_sm90_shape.cuh"
#include "gpukit/ops/attention/attention_softmax.cuh"
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/hopper/barrier.cuh"
#include "gpukit/ops/hopper/tma.cuh"
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

template <typename T, int kDim>
struct Sm90Attention {
  static constexpr int kPanels = sm90_panels(kDim), kTileBytes = kPanels * kSm90KeyPanel, kSteps = kDim / 16;
  static constexpr int kPiece = key_piece(kDim), kStages = sm90_stages(kDim);
  static constexpr bool kWide = sm90_is_wide(kDim);
  static constexpr Sm90Places kPlaces = sm90_places(kDim);

  const AttentionParams& p;
  const Sm90Grid& g;
  Sm90Shared& s;
  uint32_t memory;  // the block's shared memory
  float4* totals;   // the block's sums of the pieces before

  GPUKIT_DEVICE static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// Where a tile is in the ring: its `turn` counts all tiles of the block.
  GPUKIT_DEVICE static uint32_t stage_of(uint32_t turn) { return turn % kStages; }
  GPUKIT_DEVICE static int phase_of(uint32_t turn) { return static_cast<int>(turn / kStages % 2); }
  GPUKIT_DEVICE uint32_t k_at(uint32_t turn) const { return memory + kPlaces.k + stage_of(turn) * kTileBytes; }
  GPUKIT_DEVICE uint32_t v_at(uint32_t turn) const { return memory + kPlaces.v + stage_of(turn) * kTileBytes; }

  GPUKIT_DEVICE void init_barriers() const {
    constexpr int kWarps = 8;
    barrier_init(shared_address(&s.q_full), 1);
    barrier_init(shared_address(&s.q_empty), kWarps);
    for (int i = 0; i < kStages; ++i) {
      barrier_init(shared_address(&s.k_full[i]), 1);
      barrier_init(shared_address(&s.v_full[i]), 1);
      barrier_init(shared_address(&s.k_empty[i]), kWarps);
      barrier_init(shared_address(&s.v_empty[i]), kWarps);
    }
    barrier_publish();
  }

  // The loading warp.

  /// Keys of one box for this lane, of those of a tile.
  struct Box {
    int slot, page;
    bool readable;
  };
  GPUKIT_DEVICE Box find_box(int sequence, int tile, const Sm90Job& job, const int32_t* tables, Fault* fault) const {
    const int key = tile * kKeyTile + lane() * g.box_keys;
    Box box{static_cast<int>(p.cache.page_size < 0x7fffffff ? p.cache.page_size : 0x7fffffff), 0, false};
    if (lane() * g.box_keys >= kKeyTile || key >= job.end || key + g.box_keys <= job.begin) return box;
    if (p.cache.paged == 0) return {key, sequence, true};
    const CacheSlot at = find_slot(p.cache, tables, sequence, key);
    if (at.limit != 0) {
      note_fault(fault, p.fault_op, at.bad, at.limit);
      return box;
    }
    return {static_cast<int>(at.slot), static_cast<int>(at.page), true};
  }
  GPUKIT_DEVICE void load_box(uint32_t tile, uint64_t& full, const TileMap* map, const Box& box, int kv_head) const {
    const uint32_t barrier = shared_address(&full);
    if (lane() == 0) barrier_expect(barrier, kTileBytes);
    __syncwarp();
    if (lane() * g.box_keys >= kKeyTile) return;
#pragma unroll
    for (int panel = 0; panel < kPanels; ++panel)
      tile_load_4d(tile + panel * kSm90KeyPanel + lane() * g.box_keys * 128, map, barrier, panel * kSm90PanelDims,
                   box.slot, kv_head, box.page);
  }

  GPUKIT_DEVICE void load_job(const Sm90Job& job, int sequence, uint32_t& turn, const TileMap* q_map,
                              const TileMap* k_map, const TileMap* v_map, const int32_t* tables, Fault* fault) const {
    if (lane() == 0) {
      s.job = job;
      const uint32_t full = shared_address(&s.q_full);
      barrier_expect(full, g.tokens * g.heads * 128 * kPanels);
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel)
        tile_load_4d(memory + panel * kSm90QueryPanel, q_map, full, panel * kSm90PanelDims, job.head,
                     static_cast<int>(job.first_token % p.queries), static_cast<int>(job.first_token / p.queries));
    }
    if (job.begin >= job.end) return;
    const int last = (job.end + kKeyTile - 1) / kKeyTile;
    int tile = job.begin / kKeyTile;
    Box box = find_box(sequence, tile, job, tables, fault);
    for (; tile < last; ++tile, ++turn) {
      const uint32_t stage = stage_of(turn);
      const Box next = tile + 1 < last ? find_box(sequence, tile + 1, job, tables, fault) : box;
      const uint32_t boxes = __ballot_sync(0xffffffffu, box.readable);
      barrier_wait(shared_address(&s.k_empty[stage]), phase_of(turn) ^ 1);
      if (lane() < 2) {
        // Box i has keys [i box_keys, (i + 1) box_keys).
        uint32_t bits = 0;
        for (int i = 0; i < 32; i += g.box_keys < 32 ? g.box_keys : 32)
          if ((boxes >> (lane() * 32 + i) / g.box_keys & 1) != 0)
            bits |= (g.box_keys < 32 ? (1u << g.box_keys) - 1 : ~0u) << i;
        s.readable[stage][lane()] = bits;
      }
      __syncwarp();
      load_box(k_at(turn), s.k_full[stage], k_map, box, job.kv_head);
      barrier_wait(shared_address(&s.v_empty[stage]), phase_of(turn) ^ 1);
      load_box(v_at(turn), s.v_full[stage], v_map, box, job.kv_head);
      box = next;
    }
  }

  GPUKIT_DEVICE static int least_of_warp(int x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      const int other = __shfl_xor_sync(0xffffffffu, x, step);
      x = other < x ? other : x;
    }
    return x;
  }
  /// Keys that rows [first, last) of the unit see, of tokens [start, stop); of one piece where units take one.
  GPUKIT_DEVICE void find_keys(int start, int stop, int first, int last, int piece, int32_t& begin,
                               int32_t& end) const {
    int least = 0x7fffffff, most = 0;
    for (int t = start + lane(); t < stop; t += 32) {
      const Sm90Token token = s.tokens[t];
      if (token.begin >= token.end || t * g.heads >= last || (t + 1) * g.heads <= first) continue;
      least = token.begin < least ? token.begin : least;
      most = token.end > most ? token.end : most;
    }
    begin = least_of_warp(least);
    end = -least_of_warp(-most);
    if (g.split != 0) {
      begin = begin > piece * kPiece ? begin : piece * kPiece;
      end = end < (piece + 1) * kPiece ? end : (piece + 1) * kPiece;
    }
    if (begin >= end) begin = end = 0;
  }

  GPUKIT_DEVICE void produce(const TileMap* q_map, const TileMap* k_map, const TileMap* v_map, const int32_t* tables,
                             const int32_t* first, const int32_t* second, Fault* fault) const {
    const int64_t units = int64_t{g.token_blocks} * g.columns * g.pieces;
    const int kv_heads = p.heads / p.group;
    const uint32_t q_empty = shared_address(&s.q_empty);
    uint32_t turn = 0;
    int jobs = 0;
    // Every second round backwards: who had the heaviest unit has the lightest next.
    for (int64_t round = 0; round * gridDim.x < units; ++round) {
      const int64_t at = round * gridDim.x + (round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
      if (at >= units) continue;
      const Sm90Unit unit = sm90_unit(g, at);
      const int chunk = unit.column % g.chunks, kv_head = unit.column / g.chunks % kv_heads;
      const int batch = unit.column / g.chunks / kv_heads;
      const int64_t in_batch = int64_t{unit.token_block} * g.tokens;
      const int tokens = static_cast<int>(p.queries - in_batch < g.tokens ? p.queries - in_batch : g.tokens);
      Sm90Job job{};
      job.first_token = batch * p.queries + in_batch;
      job.kv_head = kv_head;
      job.head = kv_head * p.group + chunk * g.heads;
      job.piece = unit.piece;
      barrier_wait(q_empty, (jobs + 1) % 2);
      __syncwarp();
      for (int t = lane(); t < tokens; t += 32) {
        const Query query = query_of(p, job.first_token + t, first, second);
        const bool any = query.begin < query.end;  // else they may be out of the range of int32_t
        s.tokens[t] = {static_cast<int32_t>(query.sequence), any ? static_cast<int32_t>(query.begin) : 0,
                       any ? static_cast<int32_t>(query.end) : 0};
        if (query.limit != 0) note_fault(fault, p.fault_op, query.bad, query.limit);
      }
      __syncwarp();
      // Tokens side by side of one sequence share what is read; mostly that is all of them.
      for (int start = 0; start < tokens; start = job.stop) {
        const int sequence = s.tokens[start].sequence;
        job.start = start;
        job.stop = tokens;
        for (int from = start; from < tokens; from += 32) {
          const int t = from + lane();
          const uint32_t others =
              __ballot_sync(0xffffffffu, t < tokens && s.tokens[t < tokens ? t : 0].sequence != sequence);
          if (others == 0) continue;
          job.stop = from + __ffs(static_cast<int>(others)) - 1;
          break;
        }
        find_keys(job.start, job.stop, 0, kSm90Rows, unit.piece, job.begin, job.end);
        if (g.split != 0 && job.begin >= job.end) continue;
        for (int group = 0; group < 2; ++group)
          find_keys(job.start, job.stop, group * kSm90GroupRows, (group + 1) * kSm90GroupRows, unit.piece,
                    job.group_begin[group], job.group_end[group]);
        barrier_wait(q_empty, (jobs + 1) % 2);
        load_job(job, sequence, turn, q_map, k_map, v_map, tables, fault);
        ++jobs;
      }
    }
    barrier_wait(q_empty, (jobs + 1) % 2);
    if (lane() != 0) return;
    s.job.last = 1;
    barrier_arrive(shared_address(&s.q_full));
  }

  // A multiplying warpgroup.

  struct Row {
    int32_t begin, end;  // keys that it sees
    int64_t token;
    int head;
    bool used;
  };
  GPUKIT_DEVICE Row find_row(const Sm90Job& job, int r) const {
    const int t = r / g.heads, head = job.head + r % g.heads;
    if (t < job.start || t >= job.stop || head >= (job.kv_head + 1) * p.group) return {0, 0, 0, 0, false};
    return {s.tokens[t].begin, s.tokens[t].end, job.first_token + t, head, true};
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
  GPUKIT_DEVICE void add_tile(RowState (&state)[2], float (&factor)[2], float (&x)[8][4], const Row (&rows)[2],
                              int tile, const uint32_t (&readable)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
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
  GPUKIT_DEVICE void write_results(const float (&sums)[kDim / 8][4], const RowState (&total)[2], const Row (&rows)[2],
                                   T* out, float* lse) const {
    const bool pairs = p.out.step == 1 && p.dim % 2 == 0 && (p.out.batch | p.out.token | p.out.head) % 2 == 0 &&
                       reinterpret_cast<uint64_t>(out) % 4 == 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!rows[half].used) continue;
      T* to = out + row_place(p, p.out, rows[half].token, rows[half].head);
      const float inverse = row_inverse(total[half]);
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
        const int dim = 8 * i + lane() % 4 * 2;
        const float low = finish_row(sums[i][2 * half], inverse), high = finish_row(sums[i][2 * half + 1], inverse);
        if (pairs) {
          if (dim < p.dim) *reinterpret_cast<uint32_t*>(to + dim) = pack<T>(low, high);
        } else {
          if (dim < p.dim) to[dim * p.out.step] = store<T>(low);
          if (dim + 1 < p.dim) to[(dim + 1) * p.out.step] = store<T>(high);
        }
      }
      if (lse != nullptr && lane() % 4 == 0)
        lse[row_place(p, p.lse, rows[half].token, rows[half].head)] = power_lse(total[half], g.power);
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
  /// A tile of which this warpgroup's rows see nothing.
  GPUKIT_DEVICE void skip_tile(uint32_t turn, int tile, const Sm90Job& job) const {
    wait_keys(turn);
    release(s.k_empty[stage_of(turn)]);
    wait_values(turn, tile, job);
    release(s.v_empty[stage_of(turn)]);
  }

  GPUKIT_DEVICE void consume(T* out, float* lse, float* pieces) const {
    const int group = static_cast<int>(threadIdx.x) / 128;
    const int first_row = group * kSm90GroupRows + static_cast<int>(threadIdx.x) % 128 / 32 * 16;
    uint32_t turn = 0;
    for (int jobs = 0;; ++jobs) {
      barrier_wait(shared_address(&s.q_full), jobs % 2);
      typename Sm90JobView<kWide>::Type job = s.job;
      if (job.last != 0) return;
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
        for (; tile < begin; ++tile, ++turn) skip_tile(turn, tile, job);
        float x[8][4], factor[2];
        uint32_t weights[4][4];
        RowState state[2] = {no_keys(), no_keys()};
        uint32_t readable[2];
        wait_keys(turn);
        multiply_keys(x, q, k_at(turn));
        readable[0] = s.readable[stage_of(turn)][0], readable[1] = s.readable[stage_of(turn)][1];
        wgmma_wait<0>();
        keep_sums(reinterpret_cast<float(&)[32]>(x));
        release(s.k_empty[stage_of(turn)]);
        add_tile(state, factor, x, rows, tile, readable);
        pack_weights(weights, x);
        bool first_piece = true;
        for (; tile + 1 < end; ++tile, ++turn) {
          wait_values(turn, tile, job);
          wait_keys(turn + 1);
          multiply_keys(x, q, k_at(turn + 1));
          multiply_values(sums, weights, v_at(turn), tile * kKeyTile % kPiece);
          readable[0] = s.readable[stage_of(turn + 1)][0], readable[1] = s.readable[stage_of(turn + 1)][1];
          wgmma_wait<1>();
          keep_sums(reinterpret_cast<float(&)[32]>(x));
          release(s.k_empty[stage_of(turn + 1)]);
          const bool ends = (tile + 1) * kKeyTile % kPiece == 0;
          RowState done[2] = {state[0], state[1]};
          if (ends) state[0] = state[1] = no_keys();
          add_tile(state, factor, x, rows, tile + 1, readable);
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
      for (; tile < stop; ++tile, ++turn) skip_tile(turn, tile, job);
      if constexpr (kWide) release(s.q_empty);
      if (g.split == 0) write_results(sums, total, rows, out, lse);
    }
  }
};

/// kDim: the head dim rounded up to 64, 96, 128, 192 or 256. Grid: as many blocks as stay on the chip. Shared memory:
/// sm90_places(). `totals`, where wide: kSm90Rows rows of kDim floats a block.
template <typename T, int kDim>
__global__ void __launch_bounds__(kSm90Threads, 1)
    attention_sm90(T* out, float* lse, float* pieces, float* totals, const __grid_constant__ TileMap q_map,
                   const __grid_constant__ TileMap k_map, const __grid_constant__ TileMap v_map, const int32_t* tables,
                   const int32_t* lengths_or_ids, const int32_t* lengths_or_positions, Fault* fault,
                   const __grid_constant__ AttentionParams p, const __grid_constant__ Sm90Grid g) {
  extern __shared__ __align__(1024) uint4 memory[];
  using Attention = Sm90Attention<T, kDim>;
  char* start = reinterpret_cast<char*>(memory);
  auto& s = *reinterpret_cast<Sm90Shared*>(start + Attention::kPlaces.shared);
  float* const sums = Attention::kWide ? totals + int64_t{blockIdx.x} * kSm90Rows * kDim
                                       : reinterpret_cast<float*>(start + Attention::kPlaces.totals);
  const Attention block{p, g, s, shared_address(start), reinterpret_cast<float4*>(sums)};
  if (threadIdx.x == 0) block.init_barriers();
  __syncthreads();
  if (threadIdx.x >= 256) {
    give_registers<56>();
    if (threadIdx.x < 288) block.produce(&q_map, &k_map, &v_map, tables, lengths_or_ids, lengths_or_positions, fault);
  } else {
    take_registers<224>();
    block.consume(out, lse, pieces);
  }
}

}  // namespace gpukit
