// The loading warp of attention_sm90: it finds the units' rows and keys and brings queries, keys and values by TMA.
#pragma once
#include "gpukit/ops/attention/attention_rows.cuh"
#include "gpukit/ops/attention/attention_sm90_shape.cuh"
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/common/mma.cuh"
#include "gpukit/ops/hopper/barrier.cuh"
#include "gpukit/ops/hopper/tma.cuh"

namespace gpukit {

/// What all threads of a block of attention_sm90 know.
template <int kDim>
struct Sm90Block {
  static constexpr int kPanels = sm90_panels(kDim), kTileBytes = kPanels * kSm90KeyPanel;
  static constexpr int kPiece = key_piece(kDim), kStages = sm90_stages(kDim);
  static constexpr Sm90Places kPlaces = sm90_places(kDim);

  const AttentionParams& p;
  const Sm90Grid& g;
  Sm90Shared& s;
  uint32_t memory;  // the block's shared memory

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
};

template <int kDim>
struct Sm90Loader : Sm90Block<kDim> {
  using Block = Sm90Block<kDim>;
  using Block::kPanels, Block::kTileBytes, Block::kPiece;
  using Block::lane, Block::stage_of, Block::phase_of, Block::k_at, Block::v_at;
  using Block::p, Block::g, Block::s, Block::memory;

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
                       any ? static_cast<int32_t>(query.end) : 0, any ? static_cast<int32_t>(query.position) : 0};
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
};

}  // namespace gpukit
