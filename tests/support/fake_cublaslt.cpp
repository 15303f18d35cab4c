#include "tests/support/fake_cublaslt.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "gpukit/base/half.h"
#include "gpukit/runtime/device.h"
#include "tests/support/testing.h"

namespace gpukit::testing {
namespace {

using namespace driver;

constexpr cublasStatus_t kInvalidValue = 7, kNotSupported = 15;

/// A description, layout, preference or handle: attributes by their numbers.
struct Object {
  int type = 0, scale_type = 0;
  int64_t rows = 0, columns = 0, leading = 0;
  std::map<int, int64_t> attributes;
  int64_t get(int attribute, int64_t standard) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? standard : found->second;
  }
};

struct Matrix {
  Object layout;
  char* data;
};

/// A product as it was submitted; its arguments may be destroyed before it runs.
struct Work {
  Object desc;
  Matrix a, b, out;
  double alpha;
  char* workspace;
  size_t workspace_bytes;
  void run() const;
};

struct State {
  std::mutex mutex;
  std::map<std::string, int> counts, failures;
  size_t workspace_bytes = 0;
  int algorithms = 1, live = 0, refused_attribute = -1;
  FakeCublasLt::Asked asked;
  std::vector<const void*> workspaces;
  std::deque<Work> works;
};

State* g_state = nullptr;

/// Notes the call; gives the status that a test wants it to fail with.
cublasStatus_t enter(const char* call) {
  std::lock_guard lock(g_state->mutex);
  ++g_state->counts[call];
  const auto found = g_state->failures.find(call);
  return found == g_state->failures.end() ? 0 : found->second;
}

template <typename Handle>
Object* object(Handle handle) {
  return reinterpret_cast<Object*>(handle);
}

template <typename Handle>
cublasStatus_t make(const char* call, Handle* handle, Object value) {
  if (const cublasStatus_t status = enter(call)) return status;
  *handle = reinterpret_cast<Handle>(new Object(std::move(value)));
  std::lock_guard lock(g_state->mutex);
  ++g_state->live;
  return 0;
}

template <typename Handle>
cublasStatus_t destroy(const char* call, Handle handle) {
  enter(call);
  delete object(handle);
  std::lock_guard lock(g_state->mutex);
  --g_state->live;
  return 0;
}

template <typename Handle>
cublasStatus_t set(const char* call, Handle handle, int attribute, const void* value, size_t bytes) {
  if (const cublasStatus_t status = enter(call)) return status;
  int64_t wide = 0;
  if (bytes != 4 && bytes != 8) return kInvalidValue;
  std::memcpy(&wide, value, bytes);
  object(handle)->attributes[attribute] = wide;
  return 0;
}

double load(int type, const char* data, int64_t at) {
  const auto read = [&](auto value) {
    std::memcpy(&value, data + at * static_cast<int64_t>(sizeof(value)), sizeof(value));
    return value;
  };
  switch (type) {
    case 0: return read(float{});
    case 1: return read(double{});
    case 2: return to_float(read(half{}));
    case 3: return read(int8_t{});
    case 14: return to_float(read(bfloat16{}));
    case 28: return to_float(read(float8_e4m3{}));
    default: return to_float(read(float8_e5m2{}));
  }
}

void store(int type, char* data, int64_t at, double v) {
  const auto write = [&](auto value) {
    std::memcpy(data + at * static_cast<int64_t>(sizeof(value)), &value, sizeof(value));
  };
  switch (type) {
    case 0: write(static_cast<float>(v)); break;
    case 1: write(v); break;
    case 2: write(to_half(static_cast<float>(v))); break;
    case 10: write(static_cast<int32_t>(v)); break;
    default: write(to_bfloat16(static_cast<float>(v)));
  }
}

void Work::run() const {
  // Never the same twice: nobody may take it for a result.
  static std::atomic<int> runs{0};
  if (workspace_bytes != 0) std::memset(workspace, ++runs & 0xff, workspace_bytes);
  const bool turn_a = desc.get(3, 0) != 0, turn_b = desc.get(4, 0) != 0;
  const int64_t m = out.layout.rows, n = out.layout.columns, k = turn_a ? a.layout.rows : a.layout.columns;
  const auto scale = [&](int pointer, int mode, int64_t lane) {
    const auto* scales = reinterpret_cast<const float*>(desc.get(pointer, 0));
    return scales == nullptr ? 1.0f : scales[desc.get(mode, 0) == 3 ? lane : 0];
  };
  for (int64_t batch = 0; batch < out.layout.get(5, 1); ++batch)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < m; ++i) {
        double sum = 0;
        const int64_t at_a = batch * a.layout.get(6, 0), at_b = batch * b.layout.get(6, 0);
        for (int64_t l = 0; l < k; ++l)
          sum += load(a.layout.type, a.data, at_a + (turn_a ? l + i * a.layout.leading : i + l * a.layout.leading)) *
                 load(b.layout.type, b.data, at_b + (turn_b ? j + l * b.layout.leading : l + j * b.layout.leading));
        store(out.layout.type, out.data, batch * out.layout.get(6, 0) + i + j * out.layout.leading,
              alpha * sum * scale(17, 31, i) * scale(18, 32, j));
      }
}

cublasStatus_t heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                         cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t preference, int,
                         cublasLtMatmulHeuristicResult_t* results, int* found) {
  if (const cublasStatus_t status = enter("cublasLtMatmulAlgoGetHeuristic")) return status;
  std::lock_guard lock(g_state->mutex);
  g_state->asked = {static_cast<int>(object(desc)->get(15, 0)), object(desc)->type,
                    static_cast<int>(object(preference)->get(5, 256)),
                    static_cast<size_t>(object(preference)->get(1, 0))};
  *found = g_state->algorithms;
  if (*found == 0) return kNotSupported;
  results->workspace_bytes = g_state->workspace_bytes;
  results->state = 0;
  return 0;
}

double number(int type, const void* value) {
  if (type == 1) return *static_cast<const double*>(value);
  return type == 10 ? *static_cast<const int32_t*>(value) : *static_cast<const float*>(value);
}

cublasStatus_t multiply(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                        cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                        const void* beta, const void*, cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                        const cublasLtMatmulAlgo_t*, void* workspace, size_t workspace_bytes, StreamHandle stream) {
  if (const cublasStatus_t status = enter("cublasLtMatmul")) return status;
  const int scale_type = object(desc)->scale_type;
  if (number(scale_type, beta) != 0 || (workspace == nullptr && workspace_bytes != 0)) return kInvalidValue;
  const auto memory = [](const void* p) { return const_cast<char*>(static_cast<const char*>(p)); };
  Work* work = nullptr;
  {
    std::lock_guard lock(g_state->mutex);
    g_state->workspaces.push_back(workspace);
    work = &g_state->works.emplace_back(Work{*object(desc),
                                             {*object(a_layout), memory(a)},
                                             {*object(b_layout), memory(b)},
                                             {*object(d_layout), memory(d)},
                                             number(scale_type, alpha),
                                             memory(workspace),
                                             workspace_bytes});
  }
  runtime::open_device(kCpu).context.api().launch_host(
      stream, [](void* p) { static_cast<const Work*>(p)->run(); }, work);
  return 0;
}

CublasLtLibrary make_library() {
  CublasLtLibrary library;
  CublasLtTable& t = library.table;
  t.cublasLtGetVersion = [] { return size_t{130100}; };
  t.cublasLtGetStatusName = [](cublasStatus_t status) {
    return status == 13 ? "CUBLAS_STATUS_EXECUTION_FAILED" : "CUBLAS_STATUS_OTHER";
  };
  t.cublasLtCreate = [](cublasLtHandle_t* handle) { return make("cublasLtCreate", handle, {}); };
  t.cublasLtDestroy = [](cublasLtHandle_t handle) { return destroy("cublasLtDestroy", handle); };
  t.cublasLtMatmulDescCreate = [](cublasLtMatmulDesc_t* desc, int compute, int scale) {
    return make("cublasLtMatmulDescCreate", desc, {.type = compute, .scale_type = scale, .attributes = {}});
  };
  t.cublasLtMatmulDescDestroy = [](cublasLtMatmulDesc_t desc) { return destroy("cublasLtMatmulDescDestroy", desc); };
  t.cublasLtMatmulDescSetAttribute = [](cublasLtMatmulDesc_t desc, int attribute, const void* value, size_t bytes) {
    if (attribute == g_state->refused_attribute) return kInvalidValue;
    return set("cublasLtMatmulDescSetAttribute", desc, attribute, value, bytes);
  };
  t.cublasLtMatrixLayoutCreate = [](cublasLtMatrixLayout_t* layout, int type, uint64_t rows, uint64_t columns,
                                    int64_t leading) {
    return make("cublasLtMatrixLayoutCreate", layout,
                {.type = type,
                 .rows = static_cast<int64_t>(rows),
                 .columns = static_cast<int64_t>(columns),
                 .leading = leading,
                 .attributes = {}});
  };
  t.cublasLtMatrixLayoutDestroy = [](cublasLtMatrixLayout_t layout) {
    return destroy("cublasLtMatrixLayoutDestroy", layout);
  };
  t.cublasLtMatrixLayoutSetAttribute = [](cublasLtMatrixLayout_t layout, int attribute, const void* value,
                                          size_t bytes) {
    return set("cublasLtMatrixLayoutSetAttribute", layout, attribute, value, bytes);
  };
  t.cublasLtMatmulPreferenceCreate = [](cublasLtMatmulPreference_t* preference) {
    return make("cublasLtMatmulPreferenceCreate", preference, {});
  };
  t.cublasLtMatmulPreferenceDestroy = [](cublasLtMatmulPreference_t preference) {
    return destroy("cublasLtMatmulPreferenceDestroy", preference);
  };
  t.cublasLtMatmulPreferenceSetAttribute = [](cublasLtMatmulPreference_t preference, int attribute, const void* value,
                                              size_t bytes) {
    return set("cublasLtMatmulPreferenceSetAttribute", preference, attribute, value, bytes);
  };
  t.cublasLtMatmulAlgoGetHeuristic = &heuristic;
  t.cublasLtMatmul = &multiply;
  library.usable = true;
  library.version = "13.1.0";
  library.path = "fake";
  return library;
}

}  // namespace

FakeCublasLt::FakeCublasLt() {
  static const CublasLtLibrary* library = new CublasLtLibrary(make_library());
  g_state = new State;
  set_cublaslt(library);
}

FakeCublasLt::~FakeCublasLt() {
  set_cublaslt(nullptr);
  delete std::exchange(g_state, nullptr);
}

int FakeCublasLt::count(const std::string& call) const {
  std::lock_guard lock(g_state->mutex);
  const auto found = g_state->counts.find(call);
  return found == g_state->counts.end() ? 0 : found->second;
}

void FakeCublasLt::fail(const std::string& call, int status) {
  std::lock_guard lock(g_state->mutex);
  if (status == 0)
    g_state->failures.erase(call);
  else
    g_state->failures[call] = status;
}

void FakeCublasLt::refuse_attribute(int attribute) { g_state->refused_attribute = attribute; }
void FakeCublasLt::set_workspace(size_t bytes) { g_state->workspace_bytes = bytes; }
void FakeCublasLt::set_algorithms(int count) { g_state->algorithms = count; }
int FakeCublasLt::live() const { return g_state->live; }
FakeCublasLt::Asked FakeCublasLt::last_asked() const { return g_state->asked; }
std::vector<const void*> FakeCublasLt::workspaces() const { return g_state->workspaces; }

}  // namespace gpukit::testing
