#include "gpukit/python/bind.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/base/fork.h"
#include "gpukit/memory/hold.h"
#include "gpukit/python/state.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::python {

PyTypeObject* array_type = nullptr;

namespace {

/// One level of `with stream:` / `with gp.device(...)`. The ContextVar holds the innermost.
struct SessionNode {
  std::shared_ptr<const runtime::Session> session;
  PyObject* owner;
  nb::object previous;               // None at the bottom
  nb::object kept;                   // the owner, unless the scope ends with it
  std::shared_ptr<const bool> over;  // null: only pop_session ends the scope
};

PyObject* session_var = nullptr;
/// Set by the first session that is entered: until then no call looks the ContextVar up.
std::atomic<bool> sessions_used{false};
PyTypeObject* node_type = nullptr;

/// New reference, or null when nothing was entered.
SessionNode* current_node(PyObject** held) {
  if (!sessions_used.load(std::memory_order_relaxed)) return nullptr;
  PyObject* value = nullptr;
  if (PyContextVar_Get(session_var, nullptr, &value) < 0) nb::raise_python_error();
  while (value != nullptr && Py_TYPE(value) == node_type) {
    SessionNode* node = nb::inst_ptr<SessionNode>(value);
    if (node->over == nullptr || !*node->over) {
      *held = value;
      return node;
    }
    Py_SETREF(value, Py_NewRef(node->previous.ptr()));
  }
  Py_XDECREF(value);
  return nullptr;
}

/// In force where nothing was entered: the device of core.backend.set_backend, or null. Never freed once set.
std::atomic<const runtime::Session*> backend_session{nullptr};

struct Release {
  void (*function)(void*);
  void* context;
};
std::atomic<bool> releases_queued{false};
std::mutex& release_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<release_mutex>();
std::vector<Release>& release_queue() {
  static auto* queue = new std::vector<Release>;
  return *queue;
}

}  // namespace

// Calls

namespace {

/// The driver blocks a launch when about a thousand are waiting on the stream.
constexpr uint64_t kSafeBacklog = 512;

bool submits_at_once(const Array* target) {
  if (target == nullptr || target->device().kind != DeviceKind::cuda) return false;
  const driver::Stream& stream = *runtime::borrow_stream(target->device());
  // A control, a transfer of the array or a block that must come back may hold the call back.
  if (stream.control.load(std::memory_order_relaxed) != nullptr || runtime::transfers_active() ||
      memory::g_managed_blocks.load(std::memory_order_relaxed) != 0)
    return false;
  return stream.sequence.load(std::memory_order_relaxed) - stream.idle_sequence.load(std::memory_order_relaxed) <
         kSafeBacklog;
}

}  // namespace

CallScope::CallScope(const Array* target) {
  if (releases_queued.load(std::memory_order_relaxed)) run_queued_releases();
  PyObject* held = nullptr;
  if (SessionNode* node = current_node(&held)) {
    session_ = node->session;
    Py_DECREF(held);
    guard_.emplace(*session_);
  } else if (const runtime::Session* chosen = backend_session.load(std::memory_order_acquire)) {
    guard_.emplace(*chosen);
  }
  if (!submits_at_once(target)) released_.emplace();
}

std::shared_ptr<const runtime::Session> context_session() {
  PyObject* held = nullptr;
  SessionNode* node = current_node(&held);
  if (node == nullptr) return nullptr;
  auto session = node->session;
  Py_DECREF(held);
  return session;
}

runtime::Session outer_session() {
  if (auto session = context_session()) return *session;
  const runtime::Session* chosen = backend_session.load(std::memory_order_acquire);
  return chosen != nullptr ? *chosen : runtime::Session();
}

namespace {

void set_node(nb::handle value) {
  PyObject* token = PyContextVar_Set(session_var, value.ptr());
  if (token == nullptr) nb::raise_python_error();
  Py_DECREF(token);
}

}  // namespace

void push_session(nb::handle owner, runtime::Session session, std::shared_ptr<const bool> over) {
  PyObject* held = nullptr;
  SessionNode* node = current_node(&held);
  nb::object previous = node != nullptr ? nb::steal(held) : nb::none();
  auto shared = std::make_shared<const runtime::Session>(std::move(session));
  sessions_used.store(true, std::memory_order_relaxed);
  nb::object kept = over == nullptr ? nb::borrow(owner) : nb::object();
  set_node(
      nb::cast(SessionNode{std::move(shared), owner.ptr(), std::move(previous), std::move(kept), std::move(over)}));
}

void pop_session(nb::handle owner) {
  PyObject* held = nullptr;
  SessionNode* node = current_node(&held);
  nb::object guard = nb::steal(held);
  if (node == nullptr || node->owner != owner.ptr())
    throw Error(class_of(owner) + ": left out of order: it is not the innermost `with` of this context");
  set_node(nb::object(node->previous));
}

nb::object innermost_scope() {
  PyObject* held = nullptr;
  SessionNode* node = current_node(&held);
  const nb::object guard = nb::steal(held);
  return node != nullptr ? nb::borrow(node->owner) : nb::object();
}

void bind_session(nb::module_& m) {
  auto node = nb::class_<SessionNode>(m, "_Session", "One entered stream or device; internal.");
  node_type = reinterpret_cast<PyTypeObject*>(node.ptr());
  session_var = PyContextVar_New("pygpukit_session", nullptr);
  if (session_var == nullptr) nb::raise_python_error();
}

// Releases

void release_with_gil(void (*release)(void*), void* context) noexcept {
  if (!Py_IsInitialized()) return;  // the interpreter took its memory with it
  if (PyGILState_Check()) {
    release(context);
    return;
  }
  try {
    std::lock_guard lock(release_mutex());
    release_queue().push_back({release, context});
  } catch (...) {
    return;  // no memory for the queue: leak rather than call without the GIL
  }
  releases_queued.store(true, std::memory_order_relaxed);
  // A full pending-call table is fine: the next call into the library runs the queue.
  (void)Py_AddPendingCall(
      [](void*) {
        run_queued_releases();
        return 0;
      },
      nullptr);
}

void run_queued_releases() {
  std::vector<Release> ready;
  {
    std::lock_guard lock(release_mutex());
    ready.swap(release_queue());
    releases_queued.store(false, std::memory_order_relaxed);
  }
  for (const Release& release : ready) release.function(release.context);
}

// Arrays

ArrayObject wrap(Array&& array) {
  nb::object object = nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(array_type)));
  new (nb::inst_ptr<Array>(object)) Array(std::move(array));
  nb::inst_mark_ready(object);
  return object;
}

const Array* try_array(nb::handle value) {
  PyTypeObject* type = Py_TYPE(value.ptr());
  if (type != array_type && !PyType_IsSubtype(type, array_type)) return nullptr;
  return nb::inst_ready(value) ? nb::inst_ptr<Array>(value) : nullptr;
}

namespace {

[[noreturn]] void wrong_type(const char* op, const char* argument, const char* needed, nb::handle value) {
  std::string text = std::string(op) + ": " + argument + " must be " + needed + ", got " + class_of(value);
  if (is_numpy_array(value)) text += "; use gp.from_numpy";
  throw nb::type_error(text.c_str());
}

}  // namespace

const Array& to_array(const char* op, const char* argument, nb::handle value) {
  const Array* array = try_array(value);
  if (array == nullptr) wrong_type(op, argument, "a GPUArray", value);
  return *array;
}

const Array* to_optional_array(const char* op, const char* argument, nb::handle value) {
  return value.is_none() ? nullptr : &to_array(op, argument, value);
}

void refuse_numpy(const char* op) {
  throw nb::type_error(
      (std::string(op) + ": arrays of NumPy and GPUArrays do not mix; use gp.asarray(x) first").c_str());
}

std::optional<Operand> try_operand(const char* op, nb::handle value) {
  if (const Array* array = try_array(value)) return Operand(*array);
  PyObject* p = value.ptr();
  if (PyBool_Check(p) || PyLong_Check(p) || PyFloat_Check(p) || PyComplex_Check(p) || is_numpy_scalar(value))
    return Operand(to_scalar(op, "operand", value));
  if (is_numpy_array(value)) refuse_numpy(op);
  return std::nullopt;
}

Operand to_operand(const char* op, const char* argument, nb::handle value) {
  if (const Array* array = try_array(value)) return Operand(*array);
  PyObject* p = value.ptr();
  if (PyFloat_CheckExact(p)) return Operand(PyFloat_AS_DOUBLE(p));
  if (PyBool_Check(p) || PyLong_Check(p) || PyFloat_Check(p) || PyComplex_Check(p) || is_numpy_scalar(value))
    return Operand(to_scalar(op, argument, value));
  wrong_type(op, argument, "an array or a number", value);
}

// Devices

void set_backend_device(std::optional<Device> device) {
  // Calls in other threads may still look at an older choice, so none is freed; there are as many as devices.
  static auto* choices = new std::vector<std::unique_ptr<const runtime::Session>>;
  const runtime::Session* session = nullptr;
  for (const auto& known : *choices)
    if (device && known->device == device) session = known.get();
  if (device && session == nullptr)
    session =
        choices->emplace_back(std::make_unique<const runtime::Session>(runtime::Session().with_device(*device))).get();
  backend_session.store(session, std::memory_order_release);
}

Device to_device(nb::handle value) {
  if (value.is_none()) {
    if (auto device = outer_session().device) return *device;
    return runtime::default_device();
  }
  if (nb::isinstance<Device>(value)) return nb::cast<Device>(value);
  if (PyUnicode_Check(value.ptr())) return device_from_name(to_text("device", "name", value));
  if (const Array* array = try_array(value)) return array->device();
  throw nb::type_error(
      ("device must be a name such as 'cpu' or 'cuda:0', a Device or None, got " + class_of(value)).c_str());
}

}  // namespace gpukit::python
