#include "gpukit/driver/cublaslt.h"

#include <atomic>
#include <utility>

#include "gpukit/base/env.h"
#include "gpukit/driver/cuda.h"
#include "gpukit/driver/dynlib.h"

namespace gpukit::driver {

namespace {

constexpr const char* kNotAvailable = "cuBLASLt not available: ";
constexpr int kMajorMin = 12;

// The library's numbers.
enum DataType {
  kFloat32 = 0,
  kFloat64 = 1,
  kFloat16 = 2,
  kInt8 = 3,
  kInt32 = 10,
  kBfloat16 = 14,
  kE4m3 = 28,
  kE5m2 = 29
};
enum ComputeType { kCompute32F = 68, kCompute64F = 70, kCompute32I = 72, kComputeTf32 = 77 };
enum DescAttribute {
  kTransposeA = 3,
  kTransposeB = 4,
  kSmCountTarget = 15,
  kScalePointerA = 17,
  kScalePointerB = 18,
  kScaleModeA = 31,
  kScaleModeB = 32
};
enum LayoutAttribute { kBatchCount = 5, kBatchOffset = 6 };
enum PreferenceAttribute {
  kMaxWorkspace = 1,
  kMinAlignmentA = 5,
  kMinAlignmentB = 6,
  kMinAlignmentC = 7,
  kMinAlignmentD = 8
};
constexpr int32_t kOuterVector = 3;  // a mode of scales: one for each row or column

int type_of(DType dtype) {
  switch (dtype) {
    case DType::float16: return kFloat16;
    case DType::bfloat16: return kBfloat16;
    case DType::float64: return kFloat64;
    case DType::int8: return kInt8;
    case DType::int32: return kInt32;
    case DType::float8_e4m3: return kE4m3;
    case DType::float8_e5m2: return kE5m2;
    default: return kFloat32;
  }
}

std::string fill(const Dynlib& library, CublasLtTable* table) {
#define GPUKIT_CUBLASLT_FIND(name)                                              \
  table->name = reinterpret_cast<decltype(table->name)>(library.symbol(#name)); \
  if (table->name == nullptr) return "has no " #name;
  GPUKIT_CUBLASLT_FIND(cublasLtGetVersion)
  GPUKIT_CUBLASLT_FIND(cublasLtGetStatusName)
  GPUKIT_CUBLASLT_FIND(cublasLtCreate)
  GPUKIT_CUBLASLT_FIND(cublasLtDestroy)
  GPUKIT_CUBLASLT_FIND(cublasLtMatmulDescCreate)
  GPUKIT_CUBLASLT_FIND(cublasLtMatmulDescDestroy)
  GPUKIT_CUBLASLT_FIND(cublasLtMatmulDescSetAttribute)
  GPUKIT_CUBLASLT_FIND(cublasLtMatrixLayoutCreate)
  GPUKIT_CUBLASLT_FIND(cublasLtMatrixLayoutDestroy)
  GPUKIT_CUBLASLT_FIND(cublasLtMatrixLayoutSetAttribute)
  GPUKIT_CUBLASLT_FIND(cublasLtMatmulPreferenceCreate)
  GPUKIT_CUBLASLT_FIND(cublasLtMatmulPreferenceDestroy)
  GPUKIT_CUBLASLT_FIND(cublasLtMatmulPreferenceSetAttribute)
  GPUKIT_CUBLASLT_FIND(cublasLtMatmulAlgoGetHeuristic)
  GPUKIT_CUBLASLT_FIND(cublasLtMatmul)
#undef GPUKIT_CUBLASLT_FIND
  return {};
}

// Empty when the candidate serves; then `found` is complete.
std::string try_candidate(const LibraryCandidate& candidate, int driver_major, CublasLtLibrary* found) {
  std::string reason;
  // Where the file's name tells, a library that cannot serve is not even mapped: it is large.
  const auto newer = [&](int major) {
    return "CUDA " + std::to_string(major) + " is newer than the driver's " + std::to_string(driver_major);
  };
  if (candidate.major > driver_major) return newer(candidate.major);
  Dynlib library = candidate.loaded ? Dynlib::find_loaded(candidate.path) : Dynlib::open(candidate.path, &reason);
  if (!library) return candidate.loaded ? "not loaded in this process" : reason;
  CublasLtLibrary made;
  if (reason = fill(library, &made.table); !reason.empty()) return reason;
  const size_t version = made.table.cublasLtGetVersion();
  const int major = static_cast<int>(version / 10000);
  if (major < kMajorMin) return "version " + std::to_string(version) + " is older than CUDA 12";
  if (major > driver_major) return newer(major);
  made.version =
      std::to_string(major) + "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
  made.path = library.path();
  made.place = candidate.place;
  made.usable = true;
  library.leak();
  *found = std::move(made);
  return {};
}

CublasLtSearch search_this_machine() {
  CublasLtSearch search;
  search.off = env::no_cublaslt();
  search.only = env::get("PYGPUKIT_CUBLASLT").value_or("");
  search.driver_major = cuda_driver_version() / 1000;
  if (!search.off && search.only.empty() && search.driver_major != 0)
    search.candidates = library_candidates(NvidiaLibrary::cublaslt, &search.missing);
  return search;
}

struct Cached {
  std::mutex mutex;
  std::atomic<const CublasLtLibrary*> usable{nullptr};
  const CublasLtLibrary* last = nullptr;  // never deleted: callers hold it
  uint64_t site_version = 0;
};

Cached& cached() {
  static Cached* instance = new Cached;
  return *instance;
}

void check(const CublasLtTable& table, cublasStatus_t status, const char* call) {
  if (status != 0) throw CublasLtError(table, call, status);
}

/// What the library says of problems it does not serve: invalid value, other chip, not supported.
bool is_refusal(cublasStatus_t status) { return status == 7 || status == 8 || status == 15; }

template <typename T>
void set(const CublasLtTable& table, cublasLtMatmulDesc_t desc, DescAttribute attribute, T value) {
  check(table, table.cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

}  // namespace

CublasLtLibrary open_cublaslt(const CublasLtSearch& search) {
  CublasLtLibrary found;
  if (search.off || search.driver_major == 0) {
    found.reason = kNotAvailable + std::string(search.off ? "PYGPUKIT_NO_CUBLASLT is set" : "there is no CUDA driver");
    return found;
  }
  std::vector<LibraryCandidate> candidates = search.candidates;
  if (!search.only.empty()) candidates = {{"PYGPUKIT_CUBLASLT", search.only, 0, false}};
  std::vector<LibraryAttempt> attempts = search.missing;
  for (const LibraryCandidate& candidate : candidates) {
    std::string reason = try_candidate(candidate, search.driver_major, &found);
    if (reason.empty()) return found;
    attempts.push_back({candidate.path, reason});
  }
  const char* package = search.driver_major >= 13 ? "nvidia-cublas" : "nvidia-cublas-cu12";
  found.reason = kNotAvailable + str(attempts) + "; to get it: pip install " + package;
  return found;
}

const CublasLtLibrary& cublaslt() {
  Cached& c = cached();
  if (const CublasLtLibrary* usable = c.usable.load(std::memory_order_acquire)) return *usable;
  std::lock_guard lock(c.mutex);
  const uint64_t site_version = site_packages_version();
  if (c.last == nullptr || (!c.last->usable && c.site_version != site_version)) {
    c.last = new CublasLtLibrary(open_cublaslt(search_this_machine()));
    c.site_version = site_version;
    if (c.last->usable) c.usable.store(c.last, std::memory_order_release);
  }
  return *c.last;
}

void set_cublaslt(const CublasLtLibrary* library) {
  Cached& c = cached();
  std::lock_guard lock(c.mutex);
  c.last = library;
  c.site_version = site_packages_version();
  c.usable.store(library != nullptr && library->usable ? library : nullptr, std::memory_order_release);
}

CublasLtError::CublasLtError(const CublasLtTable& table, const char* failed, cublasStatus_t code)
    : Error("matrix product by cuBLASLt: " + std::string(failed) + " failed with " + table.cublasLtGetStatusName(code) +
            " (" + std::to_string(code) + "); PYGPUKIT_NO_CUBLASLT=1 does without it"),
      call(failed),
      name(table.cublasLtGetStatusName(code)),
      status(code) {}

LtHandle::LtHandle(const CublasLtTable& table) : table_(table) {
  check(table, table.cublasLtCreate(&handle_), "cublasLtCreate");
}

std::shared_ptr<LtProduct> LtProduct::find(const LtHandle& handle, const LtProblem& problem) {
  std::shared_ptr<LtProduct> product(new LtProduct(handle, problem));
  return product->describe() && product->choose() ? product : nullptr;
}

LtProduct::~LtProduct() {
  const CublasLtTable& table = handle_.table();
  for (cublasLtMatrixLayout_t layout : {a_, b_, out_})
    if (layout != nullptr) table.cublasLtMatrixLayoutDestroy(layout);
  if (desc_ != nullptr) table.cublasLtMatmulDescDestroy(desc_);
}

cublasLtMatrixLayout_t LtProduct::layout(const LtMatrix& m) const {
  const CublasLtTable& table = handle_.table();
  cublasLtMatrixLayout_t made = nullptr;
  check(table,
        table.cublasLtMatrixLayoutCreate(&made, type_of(m.dtype), static_cast<uint64_t>(m.rows),
                                         static_cast<uint64_t>(m.columns), m.stride),
        "cublasLtMatrixLayoutCreate");
  if (problem_.batches == 1) return made;
  const int32_t batches = problem_.batches;
  cublasStatus_t status = table.cublasLtMatrixLayoutSetAttribute(made, kBatchCount, &batches, sizeof(batches));
  if (status == 0)
    status = table.cublasLtMatrixLayoutSetAttribute(made, kBatchOffset, &m.batch_stride, sizeof(m.batch_stride));
  if (status != 0) table.cublasLtMatrixLayoutDestroy(made);
  check(table, status, "cublasLtMatrixLayoutSetAttribute");
  return made;
}

bool LtProduct::describe() {
  const CublasLtTable& table = handle_.table();
  constexpr int kComputes[] = {kCompute32F, kComputeTf32, kCompute64F, kCompute32I};
  constexpr int kScales[] = {kFloat32, kFloat32, kFloat64, kInt32};
  const auto index = static_cast<size_t>(problem_.compute);
  check(table, table.cublasLtMatmulDescCreate(&desc_, kComputes[index], kScales[index]), "cublasLtMatmulDescCreate");
  set(table, desc_, kTransposeA, int32_t{problem_.turn_a});
  set(table, desc_, kTransposeB, int32_t{problem_.turn_b});
  if (problem_.sm_count != 0) set(table, desc_, kSmCountTarget, int32_t{problem_.sm_count});
  // One number is the mode of a new description; libraries before 12.9 know no other.
  for (const auto& [scales, attribute] :
       {std::pair(problem_.scales_a, kScaleModeA), std::pair(problem_.scales_b, kScaleModeB)})
    if (scales == LtScales::rows &&
        table.cublasLtMatmulDescSetAttribute(desc_, attribute, &kOuterVector, sizeof(kOuterVector)) != 0)
      return false;
  // Until the addresses are known, ones that the choice of an algorithm takes as well aligned and does not read.
  if (problem_.scales_a != LtScales::none) set(table, desc_, kScalePointerA, uint64_t{256});
  if (problem_.scales_b != LtScales::none) set(table, desc_, kScalePointerB, uint64_t{256});
  a_ = layout(problem_.a);
  b_ = layout(problem_.b);
  out_ = layout(problem_.out);
  return true;
}

bool LtProduct::choose() {
  const CublasLtTable& table = handle_.table();
  cublasLtMatmulPreference_t preference = nullptr;
  check(table, table.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const uint64_t workspace = problem_.workspace_bytes;
  const auto alignment = static_cast<uint32_t>(problem_.alignment);
  cublasStatus_t status =
      table.cublasLtMatmulPreferenceSetAttribute(preference, kMaxWorkspace, &workspace, sizeof(workspace));
  for (const int attribute : {kMinAlignmentA, kMinAlignmentB, kMinAlignmentC, kMinAlignmentD})
    if (status == 0)
      status = table.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &alignment, sizeof(alignment));
  const char* call = "cublasLtMatmulPreferenceSetAttribute";
  int found = 0;
  if (status == 0) {
    call = "cublasLtMatmulAlgoGetHeuristic";
    status = table.cublasLtMatmulAlgoGetHeuristic(handle_.get(), desc_, a_, b_, out_, out_, preference, 1, &algorithm_,
                                                  &found);
  }
  table.cublasLtMatmulPreferenceDestroy(preference);
  if (is_refusal(status)) return false;
  check(table, status, call);
  return found > 0 && algorithm_.state == 0;
}

cublasStatus_t LtProduct::submit(const Addresses& at, float alpha, StreamHandle stream) {
  const CublasLtTable& table = handle_.table();
  const auto pointer = [](Address address) { return reinterpret_cast<void*>(address); };
  union Number {
    float single;
    double twice;
    int32_t integer;
  } one, zero;
  zero.twice = 0;
  switch (problem_.compute) {
    case LtCompute::float64: one.twice = alpha; break;
    case LtCompute::int32: one.integer = static_cast<int32_t>(alpha); break;
    default: one.single = alpha;
  }
  std::unique_lock lock(mutex_, std::defer_lock);
  if (problem_.scales_a != LtScales::none || problem_.scales_b != LtScales::none) {
    lock.lock();
    const void *scale_a = pointer(at.scale_a), *scale_b = pointer(at.scale_b);
    for (const auto& [attribute, value] : {std::pair(kScalePointerA, &scale_a), std::pair(kScalePointerB, &scale_b)})
      if (const cublasStatus_t status = table.cublasLtMatmulDescSetAttribute(desc_, attribute, value, sizeof(*value)))
        return status;
  }
  return table.cublasLtMatmul(handle_.get(), desc_, &one, pointer(at.a), a_, pointer(at.b), b_, &zero, pointer(at.out),
                              out_, pointer(at.out), out_, &algorithm_.algo, pointer(at.workspace),
                              algorithm_.workspace_bytes, stream);
}

}  // namespace gpukit::driver
