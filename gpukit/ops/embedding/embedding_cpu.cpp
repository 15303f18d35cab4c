#include <algorithm>
#include <cstring>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

void embedding(const char* op, const Array& out, const Array& table, const Array& ids, bool sequential) {
  struct Work {
    int64_t rows, width, vocab, bytes, out_row, out_step, table_row, table_step, id_step;
    bool wide_ids, sequential;
    int32_t fault_op;
    runtime::FaultWord* fault;
  };
  const Work w{.rows = out.shape()[0],
               .width = out.shape()[1],
               .vocab = table.shape()[0],
               .bytes = itemsize(out.dtype()),
               .out_row = out.strides()[0],
               .out_step = out.strides()[1],
               .table_row = table.strides()[0],
               .table_step = table.strides()[1],
               .id_step = ids.strides()[0],
               .wide_ids = ids.dtype() == DType::int64,
               .sequential = sequential,
               .fault_op = runtime::fault_code(op),
               .fault = runtime::fault_word(out.device())};
  runtime::run_host(op, out.device(), {write(out), read(table), read(ids)}, [w](void* const* p) {
    auto id_at = [&](int64_t i) -> int64_t {
      return w.wide_ids ? static_cast<const int64_t*>(p[2])[i * w.id_step]
                        : static_cast<const int32_t*>(p[2])[i * w.id_step];
    };
    parallel_for(w.rows, std::max<int64_t>(1, 32768 / (w.width * w.bytes)), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t id = w.sequential ? id_at(0) + row : id_at(row);
        const bool good = id >= 0 && id < w.vocab;
        if (!good) runtime::note_fault(w.fault, w.fault_op, id, w.vocab);
        auto* to = static_cast<unsigned char*>(p[0]) + row * w.out_row * w.bytes;
        const auto* from = static_cast<const unsigned char*>(p[1]) + (good ? id : 0) * w.table_row * w.bytes;
        if (good && w.out_step == 1 && w.table_step == 1) {
          std::memcpy(to, from, static_cast<size_t>(w.width * w.bytes));
          continue;
        }
        for (int64_t i = 0; i < w.width; ++i) {
          if (good)
            std::memcpy(to + i * w.out_step * w.bytes, from + i * w.table_step * w.bytes, static_cast<size_t>(w.bytes));
          else
            std::memset(to + i * w.out_step * w.bytes, 0, static_cast<size_t>(w.bytes));
        }
      }
    });
  });
}

}  // namespace gpukit::cpu
