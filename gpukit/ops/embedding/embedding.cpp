#include "gpukit/ops/embedding/embedding.h"

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

namespace {

void check_table(const char* op, const char* argument, const Array& table) {
  check_ndim(op, argument, table, 2);
  if (is_packed(table.dtype())) unsupported_dtype(op, argument, table.dtype(), "have a dtype of whole bytes");
}

void check_ids(const char* op, const char* argument, const Array& ids, const Array& table) {
  if (ids.dtype() != DType::int32 && ids.dtype() != DType::int64)
    unsupported_dtype(op, argument, ids.dtype(), "have dtype int32 or int64");
  if (ids.device() != table.device())
    throw DeviceError(std::string(op) + ": " + argument + " is on " + str(ids.device()) + ", the table is on " +
                      str(table.device()) + "; move one with x.to(device)");
}

void submit(const char* op, const Array& out, const Array& table, const Array& ids, bool sequential) {
  if (out.size() == 0) return;
  switch (out.device().kind) {
    case DeviceKind::cpu: cpu::embedding(op, out, table, ids, sequential); break;
    case DeviceKind::cuda: cuda::embedding(op, out, table, ids, sequential); break;
  }
}

void fill_rows(const char* op, const Array& target, const Array& table, const Array& ids, const Dims& rows,
               bool sequential) {
  Temporaries temporaries(op);
  if (!target.can_view(rows) || may_share_memory(target, table) || may_share_memory(target, ids)) {
    const Array fresh = temporaries.empty(rows, target.dtype(), target.device());
    submit(op, fresh, table, ids, sequential);
    copy_into(target, fresh.reshape_view(target.shape()));
    return;
  }
  submit(op, target.reshape_view(rows), table, ids, sequential);
}

}  // namespace

Array embedding(const Array& table, const Array& ids, const Array* out) {
  return embedding("embedding", table, ids, out);
}

Array embedding(const char* op, const Array& table, const Array& ids, const Array* out) {
  check_table(op, "table", table);
  check_ids(op, "ids", ids, table);
  Dims shape = ids.shape();
  shape.push_back(table.shape()[1]);
  const Array target = result(op, out, shape, table.dtype(), table.device());
  if (target.size() == 0) return target;
  Temporaries temporaries(op);
  const Array flat = ids.can_view({ids.size()}) ? ids.reshape_view({ids.size()})
                                                : contiguous(ids, temporaries).reshape_view({ids.size()});
  fill_rows(op, target, table, flat, {ids.size(), table.shape()[1]}, false);
  return target;
}

void slice_rows(const Array& table, const Array& out, const Array& start) {
  constexpr const char* kOp = "slice_rows_range_ptr";
  check_table(kOp, "table", table);
  check_dtype(kOp, "start_pos_buf", start, DType::int32);
  if (start.size() < 1) throw ShapeError(kOp, "start_pos_buf", "have one element", start.shape().str());
  check_ids(kOp, "start_pos_buf", start, table);
  check_ndim(kOp, "out", out, 2);
  result(kOp, &out, {out.shape()[0], table.shape()[1]}, table.dtype(), table.device());
  if (out.size() == 0) return;
  Array first = start;
  while (first.ndim() > 0) first = first.select(0, 0);
  fill_rows(kOp, out, table, first.expand_dims(0), out.shape(), true);
}

}  // namespace gpukit
