#include "gpukit/io/wav.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "gpukit/array/host.h"
#include "gpukit/base/files.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit::io {

namespace {

static_assert(std::endian::native == std::endian::little, "samples are copied as they lie in the file");

constexpr uint16_t kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;
/// Behind the two bytes of the format in an extensible header's GUID.
constexpr unsigned char kGuidTail[14] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71};
constexpr int64_t kMaxChannels = 1024;

class Reader {
 public:
  Reader(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  [[noreturn]] void fail(size_t offset, const std::string& why) const {
    throw FormatError(path_ + ": at byte " + std::to_string(offset) + ": " + why);
  }
  size_t size() const { return bytes_.size(); }
  template <typename T>
  T get(size_t offset) const {
    if (offset + sizeof(T) > bytes_.size()) fail(offset, "the file ends in the middle of a header");
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  bool is(size_t offset, const char* tag) const {
    return offset + 4 <= bytes_.size() && std::memcmp(bytes_.data() + offset, tag, 4) == 0;
  }
  const std::byte* at(size_t offset) const { return bytes_.data() + offset; }

 private:
  const std::string& path_;
  std::span<const std::byte> bytes_;
};

struct Layout {
  WavFormat format = WavFormat::pcm16;
  int64_t channels = 0, rate = 0, sample_bytes = 0;
};

Layout read_layout(const Reader& r, size_t at, size_t size) {
  if (size < 16) r.fail(at, "the fmt chunk has " + std::to_string(size) + " bytes, 16 are the least");
  uint16_t tag = r.get<uint16_t>(at);
  Layout layout;
  layout.channels = r.get<uint16_t>(at + 2);
  layout.rate = r.get<uint32_t>(at + 4);
  const uint32_t byte_rate = r.get<uint32_t>(at + 8);
  const uint16_t block = r.get<uint16_t>(at + 12), bits = r.get<uint16_t>(at + 14);
  if (tag == kExtensible) {
    if (size < 40) r.fail(at, "an extensible fmt chunk has 40 bytes, this one " + std::to_string(size));
    if (r.get<uint16_t>(at + 16) < 22) r.fail(at + 16, "the extension of the fmt chunk is too short");
    const uint16_t valid = r.get<uint16_t>(at + 18);
    if (valid > bits) r.fail(at + 18, "more valid bits than bits");
    tag = r.get<uint16_t>(at + 24);
    if (std::memcmp(r.at(at + 26), kGuidTail, sizeof(kGuidTail)) != 0) r.fail(at + 24, "unknown sub-format");
  }
  if (layout.channels == 0 || layout.channels > kMaxChannels)
    r.fail(at + 2, std::to_string(layout.channels) + " channels; 1 to 1024 are read");
  if (layout.rate == 0) r.fail(at + 4, "the sample rate is 0");
  if (tag == kPcm && (bits == 8 || bits == 16 || bits == 24 || bits == 32))
    layout.format = bits == 8    ? WavFormat::pcm8
                    : bits == 16 ? WavFormat::pcm16
                    : bits == 24 ? WavFormat::pcm24
                                 : WavFormat::pcm32;
  else if (tag == kFloat && (bits == 32 || bits == 64))
    layout.format = bits == 32 ? WavFormat::float32 : WavFormat::float64;
  else
    r.fail(at, "format " + std::to_string(tag) + " with " + std::to_string(bits) +
                   " bits; PCM of 8, 16, 24, 32 bits and floats of 32, 64 are read");
  layout.sample_bytes = bits / 8;
  if (block != layout.channels * layout.sample_bytes) r.fail(at + 12, "the block size does not fit channels and bits");
  if (byte_rate != static_cast<uint64_t>(layout.rate) * block)
    r.fail(at + 8, "the byte rate does not fit the sample rate");
  return layout;
}

float sample_at(const std::byte* p, WavFormat format) {
  const auto* u = reinterpret_cast<const unsigned char*>(p);
  switch (format) {
    case WavFormat::pcm8: return static_cast<float>(static_cast<int>(u[0]) - 128) / 128.0f;
    case WavFormat::pcm16: {
      int16_t v;
      std::memcpy(&v, p, 2);
      return static_cast<float>(v) / 32768.0f;
    }
    case WavFormat::pcm24: {
      const auto v = static_cast<int32_t>(static_cast<uint32_t>(u[0]) << 8 | static_cast<uint32_t>(u[1]) << 16 |
                                          static_cast<uint32_t>(u[2]) << 24);
      return static_cast<float>(v >> 8) / 8388608.0f;
    }
    case WavFormat::pcm32: {
      int32_t v;
      std::memcpy(&v, p, 4);
      return static_cast<float>(v) / 2147483648.0f;
    }
    case WavFormat::float32: {
      float v;
      std::memcpy(&v, p, 4);
      return v;
    }
    case WavFormat::float64: {
      double v;
      std::memcpy(&v, p, 8);
      return static_cast<float>(v);
    }
  }
  return 0.0f;
}

/// The nearest integer of `bits` bits; what is not a number is 0.
int32_t to_pcm(float x, int bits) {
  if (x != x) return 0;
  const double full = std::ldexp(1.0, bits - 1);
  const double v = std::nearbyint(static_cast<double>(x) * full);
  return static_cast<int32_t>(std::fmin(std::fmax(v, -full), full - 1));
}

template <typename T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void append_sample(std::string& to, float x, WavFormat format) {
  switch (format) {
    case WavFormat::pcm8: to.push_back(static_cast<char>(to_pcm(x, 8) + 128)); break;
    case WavFormat::pcm16: append(to, static_cast<int16_t>(to_pcm(x, 16))); break;
    case WavFormat::pcm24: {
      const auto v = static_cast<uint32_t>(to_pcm(x, 24));
      for (int shift : {0, 8, 16}) to.push_back(static_cast<char>(v >> shift & 255));
      break;
    }
    case WavFormat::pcm32: append(to, to_pcm(x, 32)); break;
    case WavFormat::float32: append(to, x); break;
    case WavFormat::float64: append(to, static_cast<double>(x)); break;
  }
}

int bytes_of(WavFormat format) {
  constexpr int kBytes[] = {1, 2, 3, 4, 4, 8};
  return kBytes[static_cast<int>(format)];
}

}  // namespace

WavData parse_wav(const std::string& path, std::span<const std::byte> bytes) {
  const Reader r(path, bytes);
  if (!r.is(0, "RIFF")) r.fail(0, "not a WAV file: it does not start with RIFF");
  const size_t riff = r.get<uint32_t>(4);
  if (!r.is(8, "WAVE")) r.fail(8, "not a WAV file: no WAVE behind RIFF");
  if (riff + 8 > r.size())
    r.fail(4, "the header speaks of " + std::to_string(riff + 8) + " bytes, the file has " + std::to_string(r.size()));
  const size_t end = riff + 8;
  std::optional<Layout> layout;
  size_t at = 12;
  while (true) {
    if (at == end) r.fail(at, layout ? "no data chunk" : "no fmt chunk");
    if (at + 8 > end) r.fail(at, "the file ends in the middle of a chunk's header");
    const size_t size = r.get<uint32_t>(at + 4), body = at + 8;
    if (size > end - body)
      r.fail(at + 4, "a chunk of " + std::to_string(size) + " bytes runs past the end of the file");
    if (r.is(at, "fmt ")) {
      if (layout) r.fail(at, "a second fmt chunk");
      layout = read_layout(r, body, size);
    } else if (r.is(at, "data")) {
      if (!layout) r.fail(at, "the data chunk comes before the fmt chunk");
      const auto block = static_cast<size_t>(layout->channels * layout->sample_bytes);
      if (size % block != 0)
        r.fail(at + 4, "the data chunk of " + std::to_string(size) + " bytes is no multiple of a block of " +
                           std::to_string(block));
      const auto n = static_cast<int64_t>(size / block);
      WavData data{Array::empty({layout->channels, n}, DType::float32, Device{DeviceKind::cpu}), layout->rate};
      if (n == 0) return data;
      auto* to = static_cast<float*>(data.samples.host_data());
      const std::byte* from = r.at(body);
      const Layout l = *layout;
      parallel_for(n, 8192, [&](int64_t begin, int64_t stop) {
        for (int64_t i = begin; i < stop; ++i)
          for (int64_t c = 0; c < l.channels; ++c)
            to[c * n + i] = sample_at(from + (i * l.channels + c) * l.sample_bytes, l.format);
      });
      return data;
    }
    at = body + size;
    if (size % 2 != 0) {  // chunks begin at even bytes
      if (at == end) r.fail(at, layout ? "no data chunk" : "no fmt chunk");
      ++at;
    }
  }
}

WavData read_wav(const std::string& path) {
  const std::string bytes = files::read_file(path);
  return parse_wav(path, std::as_bytes(std::span(bytes.data(), bytes.size())));
}

void write_wav(const std::string& path, const Array& samples, int64_t rate, WavFormat format) {
  constexpr const char* kOp = "write_wav";
  check_dtype(kOp, "samples", samples, DType::float32);
  if (samples.ndim() != 1 && samples.ndim() != 2)
    throw ShapeError(kOp, "samples", "have shape [n] or [channels, n]", samples.shape().str());
  const int64_t channels = samples.ndim() == 2 ? samples.shape(0) : 1, n = samples.shape(-1);
  if (channels < 1 || channels > kMaxChannels)
    throw ShapeError(kOp, "samples", "have 1 to 1024 channels", samples.shape().str());
  if (rate < 1 || rate > std::numeric_limits<uint32_t>::max() / (channels * 8))
    throw ArgumentError(kOp, "rate", "be a sample rate that the format can hold", std::to_string(rate));
  const int64_t sample_bytes = bytes_of(format), block = channels * sample_bytes;
  const int64_t data_bytes = checked_product(kOp, n, block);
  if (data_bytes > std::numeric_limits<uint32_t>::max() - 128)
    throw ArgumentError(kOp, "samples", "take less than 4 GiB, the most a WAV file holds", std::to_string(data_bytes));
  std::vector<float> values(static_cast<size_t>(samples.size()));
  if (!values.empty()) to_host(values.data(), contiguous(samples), kOp);

  const bool is_float = format == WavFormat::float32 || format == WavFormat::float64;
  const bool extensible = channels > 2 || format == WavFormat::pcm24 || format == WavFormat::pcm32;
  const uint32_t fmt_bytes = extensible ? 40 : is_float ? 18 : 16;
  const auto padded = static_cast<uint32_t>(data_bytes + data_bytes % 2);
  std::string file;
  file.reserve(static_cast<size_t>(padded) + 64);
  file += "RIFF";
  append(file, static_cast<uint32_t>(4 + 8 + fmt_bytes + 8 + padded));
  file += "WAVEfmt ";
  append(file, fmt_bytes);
  const uint16_t tag = is_float ? kFloat : kPcm;
  append(file, extensible ? kExtensible : tag);
  append(file, static_cast<uint16_t>(channels));
  append(file, static_cast<uint32_t>(rate));
  append(file, static_cast<uint32_t>(rate * block));
  append(file, static_cast<uint16_t>(block));
  append(file, static_cast<uint16_t>(8 * sample_bytes));
  if (extensible) {
    append(file, uint16_t{22});
    append(file, static_cast<uint16_t>(8 * sample_bytes));
    append(file, uint32_t{0});  // no speaker positions
    append(file, tag);
    file.append(reinterpret_cast<const char*>(kGuidTail), sizeof(kGuidTail));
  } else if (is_float) {
    append(file, uint16_t{0});
  }
  file += "data";
  append(file, static_cast<uint32_t>(data_bytes));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < channels; ++c) append_sample(file, values[static_cast<size_t>(c * n + i)], format);
  if (data_bytes % 2 != 0) file.push_back(0);
  files::write_file(path, file);
}

WavFormat wav_format_from_name(std::string_view name) {
  constexpr std::string_view kNames[] = {"pcm8", "pcm16", "pcm24", "pcm32", "float32", "float64"};
  for (int i = 0; i < 6; ++i)
    if (name == kNames[i]) return static_cast<WavFormat>(i);
  throw ArgumentError("write_wav", "format", "be pcm8, pcm16, pcm24, pcm32, float32 or float64", name);
}

}  // namespace gpukit::io
