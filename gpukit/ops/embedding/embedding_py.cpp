#include "gpukit/ops/embedding/embedding.h"

#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

/// The rows of `out` that a call of 0.2 fills: [1, width] or [width] for one token.
Array rows_of(const char* op, const Array& out, int64_t count) {
  const Array rows = out.ndim() == 1 ? out.expand_dims(0) : out;
  if (rows.ndim() != 2 || rows.shape()[0] < count || count < 0)
    throw ShapeError(op, "out", "have shape [" + std::to_string(count) + ", width]", out.shape().str());
  return rows.narrow(0, 0, count);
}

Array first_ids(const char* op, const char* argument, const Array& ids, int64_t count) {
  check_dtype(op, argument, ids, DType::int32);
  if (ids.ndim() != 1 || ids.shape()[0] < count)
    throw ShapeError(op, argument, "have at least " + std::to_string(count) + " elements", ids.shape().str());
  return ids.narrow(0, 0, count);
}

}  // namespace

void bind_embedding(nb::module_& m) {
  m.def(
      "embedding",
      [](const ArrayObject& table, const ArrayObject& ids, ArrayArg out) {
        const Array& t = to_array("embedding", "table", table);
        const Array& i = to_array("embedding", "ids", ids);
        return with_out("embedding", out, [&](const Array* target) { return embedding(t, i, target); });
      },
      "table"_a, "ids"_a, nb::kw_only(), "out"_a = nb::none(), "table[ids]; ids are int32 or int64.");
  m.def(
      "embedding_lookup",
      [](const ArrayObject& table, const ArrayObject& out, IntArg token_id) {
        constexpr const char* kOp = "embedding_lookup";
        const Array& t = to_array(kOp, "embed_matrix", table);
        const Array& o = to_array(kOp, "out", out);
        const int64_t id = to_int(kOp, "token_id", token_id);
        in_scope([&] {
          check_ndim(kOp, "embed_matrix", t, 2);
          if (id < 0 || id >= t.shape()[0])
            throw OutOfRangeError(std::string(kOp) + ": token_id " + std::to_string(id) +
                                  " is out of range for a table of " + std::to_string(t.shape()[0]) + " rows");
          const Array rows = rows_of(kOp, o, 1);
          const Array row = t.narrow(0, id, 1);
          result(kOp, &rows, row.shape(), t.dtype(), t.device());
          return copy_into(rows, row), 0;
        });
      },
      "embed_matrix"_a, "out"_a, "token_id"_a, "out[0] = embed_matrix[token_id].");
  m.def(
      "embedding_lookup_ptr",
      [](const ArrayObject& table, const ArrayObject& out, const ArrayObject& ids) {
        constexpr const char* kOp = "embedding_lookup_ptr";
        const Array& t = to_array(kOp, "embed_matrix", table);
        const Array& o = to_array(kOp, "out", out);
        const Array& i = to_array(kOp, "token_id_buf", ids);
        in_scope([&] {
          const Array rows = rows_of(kOp, o, 1);
          return embedding(kOp, t, first_ids(kOp, "token_id_buf", i, 1), &rows), 0;
        });
      },
      "embed_matrix"_a, "out"_a, "token_id_buf"_a, "out[0] = embed_matrix[token_id_buf[0]], read on the device.");
  m.def(
      "embedding_lookup_batch",
      [](const ArrayObject& table, const ArrayObject& out, const ArrayObject& ids, IntArg batch_size) {
        constexpr const char* kOp = "embedding_lookup_batch";
        const Array& t = to_array(kOp, "embed_matrix", table);
        const Array& o = to_array(kOp, "out", out);
        const Array& i = to_array(kOp, "token_ids_buf", ids);
        const int64_t count = to_int(kOp, "batch_size", batch_size);
        in_scope([&] {
          const Array rows = rows_of(kOp, o, count);
          return embedding(kOp, t, first_ids(kOp, "token_ids_buf", i, count), &rows), 0;
        });
      },
      "embed_matrix"_a, "out"_a, "token_ids_buf"_a, "batch_size"_a, "out[i] = embed_matrix[token_ids_buf[i]].");
  m.def(
      "slice_rows_range_ptr",
      [](const ArrayObject& table, const ArrayObject& out, const ArrayObject& start, IntArg count) {
        constexpr const char* kOp = "slice_rows_range_ptr";
        const Array& t = to_array(kOp, "table", table);
        const Array& o = to_array(kOp, "out", out);
        const Array& s = to_array(kOp, "start_pos_buf", start);
        const int64_t rows = to_int(kOp, "count", count);
        in_scope([&] { return slice_rows(t, rows_of(kOp, o, rows), s), 0; });
      },
      "table"_a, "out"_a, "start_pos_buf"_a, "count"_a,
      "out = table[start : start + count], start read on the device.");
}

}  // namespace gpukit
