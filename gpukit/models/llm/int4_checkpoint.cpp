#include "gpukit/models/llm/int4_checkpoint.h"

#include <array>
#include <cstring>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/thread_pool.h"

namespace gpukit::llm {

namespace {

constexpr int64_t kRowsAtOnce = 32;  // that one thread repacks
constexpr std::array<int, 8> kInOrder{0, 1, 2, 3, 4, 5, 6, 7};
/// The nibble of a word that AWQ keeps column i in.
constexpr std::array<int, 8> kAwq{0, 4, 1, 5, 2, 6, 3, 7};

std::vector<uint32_t> words(const io::TensorFile& file, const std::string& name, const Dims& shape) {
  const io::TensorInfo& info = file.info(name);
  if (info.dtype != DType::int32 || info.shape != shape)
    throw FormatError(file.path() + ": " + name + " must be int32 " + shape.str() + ", got " +
                      gpukit::name(info.dtype) + " " + info.shape.str());
  const std::vector<std::byte> bytes = file.bytes(name);
  std::vector<uint32_t> result(bytes.size() / sizeof(uint32_t));
  std::memcpy(result.data(), bytes.data(), result.size() * sizeof(uint32_t));
  return result;
}

uint32_t nibble(uint32_t word, int index) { return word >> (4 * index) & 15u; }

void check_groups(const io::TensorFile& file, const std::string& name, int64_t group, int64_t k) {
  if (!file.contains(name)) return;
  const std::vector<uint32_t> ids = words(file, name, {k});
  for (int64_t i = 0; i < k; ++i)
    if (static_cast<int64_t>(ids[static_cast<size_t>(i)]) != i / group)
      throw UnsupportedError(file.path() + ": " + name + " permutes the columns (act order), which is not computed");
}

}  // namespace

Quantized load_int4(const io::TensorFile& file, const std::string& stem, const Int4Layout& layout, int64_t n, int64_t k,
                    Device device) {
  const bool awq = layout.kind == Int4Layout::Kind::awq;
  const int64_t group = layout.group_size < 0 ? k : layout.group_size, groups = k / group;
  if (k % group != 0 || n % 8 != 0 || k % 8 != 0)
    throw FormatError(file.path() + ": " + stem + " is " + std::to_string(n) + " by " + std::to_string(k) +
                      ", which groups of " + std::to_string(group) + " and words of 8 do not divide");
  if (!awq) check_groups(file, stem + ".g_idx", group, k);
  const auto codes = words(file, stem + ".qweight", awq ? Dims{k, n / 8} : Dims{k / 8, n});
  const auto packed_zeros = words(file, stem + ".qzeros", {groups, n / 8});
  const auto& order = awq ? kAwq : kInOrder;
  const auto code = [&](int64_t row, int64_t column) {
    return awq ? nibble(codes[static_cast<size_t>(column * (n / 8) + row / 8)], order[static_cast<size_t>(row % 8)])
               : nibble(codes[static_cast<size_t>(column / 8 * n + row)], static_cast<int>(column % 8));
  };
  // Codes 0 to 15 and their zero points move down by 8: the difference stays.
  std::vector<uint8_t> data(static_cast<size_t>(n * k / 2));
  std::vector<int8_t> zero(static_cast<size_t>(n * groups));
  const int shift = awq || !layout.zero_minus_one ? -8 : -7;
  parallel_for(n, kRowsAtOnce, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < k; column += 2)
        data[static_cast<size_t>((row * k + column) / 2)] =
            static_cast<uint8_t>((code(row, column) ^ 8u) | (code(row, column + 1) ^ 8u) << 4);
      for (int64_t g = 0; g < groups; ++g)
        zero[static_cast<size_t>(row * groups + g)] =
            static_cast<int8_t>(static_cast<int>(nibble(packed_zeros[static_cast<size_t>(g * (n / 8) + row / 8)],
                                                        order[static_cast<size_t>(row % 8)])) +
                                shift);
    }
  });
  const io::TensorInfo& info = file.info(stem + ".scales");
  if (info.shape != Dims{groups, n})
    throw FormatError(file.path() + ": " + info.name + " must have shape " + Dims{groups, n}.str() + ", got " +
                      info.shape.str());
  const Array scales = file.load(info.name, {}, DType::float32);
  std::vector<float> turned(static_cast<size_t>(n * groups));
  const auto* scale = static_cast<const float*>(scales.host_data());
  for (int64_t row = 0; row < n; ++row)
    for (int64_t g = 0; g < groups; ++g) turned[static_cast<size_t>(row * groups + g)] = scale[g * n + row];
  return {from_host(data.data(), {n, k / 2}, DType::int4, device),
          from_host(turned.data(), {n, groups}, DType::float32, device),
          from_host(zero.data(), {n, groups}, DType::int8, device)};
}

}  // namespace gpukit::llm
