#include "gpukit/python/calls.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/python/state.h"

namespace gpukit::python {

namespace {

struct Parameter {
  std::string name;
  std::string type;  // empty: none written
  bool positional = true;
  bool required = true;
};

struct Signature {
  std::vector<Parameter> parameters;  // without self
  bool any_positional = false;        // *args
  bool any_keyword = false;           // **kwargs
};

/// Types as a reader names them: without the modules they are found in.
std::string short_type(std::string_view type) {
  std::string text(type);
  for (std::string_view module :
       {"pygpukit._core.", "pygpukit.typing.", "pygpukit.core.dtypes.", "collections.abc.", "typing."})
    for (size_t at; (at = text.find(module)) != std::string::npos;) text.erase(at, module.size());
  return text;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Calls `item` for each piece of `text` between commas outside of brackets.
template <typename F>
void for_each_item(std::string_view text, F&& item) {
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[' || c == '(' || c == '{') ++depth;
    if (c == ']' || c == ')' || c == '}') --depth;
    if (c != ',' || (depth != 0 && i < text.size())) continue;
    if (auto piece = trimmed(text.substr(start, i - start)); !piece.empty()) item(piece);
    start = i + 1;
  }
}

/// "def sum(self, axis: int | None = \0, *, out: GPUArray | None = \1) -> GPUArray"; lines of decorators may come
/// first.
Signature parse(std::string_view text) {
  Signature result;
  const size_t open = text.find('(', std::min(text.size(), text.rfind("def ") + 4));
  size_t close = open;
  for (int depth = 0; close < text.size(); ++close) {
    if (text[close] == '(' || text[close] == '[') ++depth;
    if ((text[close] == ')' || text[close] == ']') && --depth == 0) break;
  }
  if (open >= close) return result;
  bool positional = true;
  for_each_item(text.substr(open + 1, close - open - 1), [&](std::string_view item) {
    if (item == "self" || item == "/") return;
    if (item.starts_with("**")) {
      result.any_keyword = true;
      return;
    }
    if (item.front() == '*') {
      result.any_positional |= item.size() > 1;
      positional = false;
      return;
    }
    Parameter p;
    p.positional = positional;
    const size_t equals = item.find(" = ");
    p.required = equals == std::string_view::npos;
    if (!p.required) item = item.substr(0, equals);
    const size_t colon = item.find(':');
    p.name = trimmed(item.substr(0, colon));
    if (colon != std::string_view::npos) p.type = short_type(trimmed(item.substr(colon + 1)));
    result.parameters.push_back(std::move(p));
  });
  return result;
}

std::string what_it_takes(const Signature& signature) {
  std::string text;
  for (const Parameter& p : signature.parameters) text += (text.empty() ? "" : ", ") + p.name;
  if (signature.any_positional) text += text.empty() ? "*args" : ", *args";
  return text.empty() ? "it takes no arguments" : "it takes " + text;
}

/// False where the value is surely none of the type; true for what this does not know.
bool fits(std::string_view type, nb::handle value) {
  PyObject* p = value.ptr();
  for (size_t bar; (bar = type.find(" | ")) != std::string_view::npos; type = type.substr(bar + 3))
    if (fits(type.substr(0, bar), value)) return true;
  if (type == "None") return value.is_none();
  if (type == "object" || type == "Any" || type.empty()) return true;
  if (value.is_none()) return type.find("None") != std::string_view::npos;
  if (type == "int") return PyIndex_Check(p) != 0;
  if (type == "float") return PyNumber_Check(p) != 0 && PyComplex_Check(p) == 0;
  if (type == "bool") return PyBool_Check(p) != 0;
  if (type == "str") return PyUnicode_Check(p) != 0;
  if (type == "GPUArray") return try_array(value) != nullptr;
  return true;
}

/// The values of a call by place and by name.
struct Call {
  std::vector<nb::handle> positional;  // without self
  std::vector<std::pair<std::string, nb::handle>> named;
};

std::string types_of(const Call& call) {
  std::string text;
  for (nb::handle value : call.positional) text += (text.empty() ? "" : ", ") + class_of(value);
  for (const auto& [name, value] : call.named) text += (text.empty() ? "" : ", ") + name + "=" + class_of(value);
  return text;
}

/// What keeps the call from this signature; empty where nothing that shows does.
std::string fault_of(const Signature& signature, const Call& call) {
  const auto& parameters = signature.parameters;
  std::vector<nb::handle> given(parameters.size());
  size_t places = 0;
  for (const Parameter& p : parameters) places += p.positional ? 1 : 0;
  if (call.positional.size() > places && !signature.any_positional)
    return "takes at most " + std::to_string(places) + " positional argument" + (places == 1 ? "" : "s") + ", got " +
           std::to_string(call.positional.size()) + "; " + what_it_takes(signature);
  for (size_t i = 0; i < std::min(places, call.positional.size()); ++i) given[i] = call.positional[i];
  for (const auto& [name, value] : call.named) {
    size_t at = 0;
    while (at < parameters.size() && parameters[at].name != name) ++at;
    if (at == parameters.size()) continue;
    if (given[at].is_valid()) return "got several values for '" + name + "'";
    given[at] = value;
  }
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].required && !given[i].is_valid())
      return "argument '" + parameters[i].name + "' is missing; " + what_it_takes(signature);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!given[i].is_valid() || fits(parameters[i].type, given[i])) continue;
    return parameters[i].name + " must be " + parameters[i].type + ", got " + class_of(given[i]);
  }
  return {};
}

std::string explanation(const std::vector<Signature>& signatures, const Call& call) {
  for (const auto& [name, value] : call.named) {
    const auto takes = [&](const Signature& s) {
      return s.any_keyword ||
             std::any_of(s.parameters.begin(), s.parameters.end(), [&](const Parameter& p) { return p.name == name; });
    };
    if (std::none_of(signatures.begin(), signatures.end(), takes))
      return "got an unexpected keyword '" + name + "'; " + what_it_takes(signatures.front());
  }
  if (signatures.size() == 1)
    if (std::string fault = fault_of(signatures.front(), call); !fault.empty()) return fault;
  std::string text = "does not take (" + types_of(call) + ")";
  const char* before = "; it takes ";
  for (const Signature& signature : signatures) {
    std::string types;
    for (const Parameter& p : signature.parameters)
      types += (types.empty() ? "" : ", ") + p.name + (p.type.empty() ? "" : ": " + p.type);
    text += before + ("(" + types + ")");
    before = " or ";
  }
  return text;
}

/// The name a caller knows: of a constructor, its class.
std::string name_of(nb::handle function, nb::handle self) {
  std::string name = nb::cast<std::string>(nb::object(function.attr("__name__")));
  if (name == "__init__" && self.is_valid()) return nb::cast<std::string>(nb::object(self.type().attr("__name__")));
  return name;
}

constexpr std::string_view kListOfOverloads = "incompatible function arguments";

/// The pending TypeError again, in one line, if it is nanobind's list of overloads.
void shorten(nb::handle function, PyObject* const* arguments, size_t count, PyObject* names) {
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) return;
  nb::python_error raised;
  std::string text;
  try {
    text = nb::cast<std::string>(nb::str(raised.value()));
    if (text.find(kListOfOverloads) != std::string::npos) {
      std::vector<Signature> signatures;
      bool method = false;
      for (nb::handle overload : nb::object(function.attr("__nb_signature__"))) {
        const std::string written = nb::cast<std::string>(nb::object(overload[0]));
        method |= written.find("(self") != std::string::npos;
        signatures.push_back(parse(written));
      }
      Call call;
      for (size_t i = method ? 1 : 0; i < count; ++i) call.positional.emplace_back(arguments[i]);
      for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i)
        call.named.emplace_back(nb::cast<std::string>(nb::handle(PyTuple_GET_ITEM(names, i))), arguments[count + i]);
      const nb::handle self = method && count != 0 ? nb::handle(arguments[0]) : nb::handle();
      PyErr_SetString(PyExc_TypeError, (name_of(function, self) + ": " + explanation(signatures, call)).c_str());
      return;
    }
  } catch (nb::python_error&) {  // a name that is no text: the list stays
  } catch (const std::exception&) {
  }
  raised.restore();
}

// nanobind calls by one of a few functions, chosen by how complex the arguments are.
constexpr int kMostWays = 8;
vectorcallfunc ways[kMostWays];
int num_ways = 0;

template <int I>
PyObject* call(PyObject* function, PyObject* const* arguments, size_t flagged, PyObject* names) {
  PyObject* result = ways[I](function, arguments, flagged, names);
  // The two highest bits of the count are flags.
  if (result == nullptr) [[unlikely]]
    shorten(function, arguments, flagged & (SIZE_MAX >> 2), names);
  return result;
}

constexpr vectorcallfunc kCalls[kMostWays] = {&call<0>, &call<1>, &call<2>, &call<3>,
                                              &call<4>, &call<5>, &call<6>, &call<7>};

void explain(nb::handle function) {
  auto* slot = reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(function.ptr()) +
                                                 Py_TYPE(function.ptr())->tp_vectorcall_offset);
  int way = 0;
  while (way < num_ways && ways[way] != *slot && kCalls[way] != *slot) ++way;
  if (way == kMostWays || (way < num_ways && kCalls[way] == *slot)) return;
  if (way == num_ways) ways[num_ways++] = *slot;
  *slot = kCalls[way];
}

PyObject* signature(PyObject* self, void*) {
  try {
    return nb::module_::import_("pygpukit._signature").attr("of")(nb::handle(self)).release().ptr();
  } catch (nb::python_error& e) {
    e.restore();
    return nullptr;
  }
}

/// nanobind's types of functions are immutable to Python code; this is before anyone looked at them.
void add_signature(PyTypeObject* type) {
  static PyGetSetDef attribute{"__signature__", &signature, nullptr, nullptr, nullptr};
  if (PyDict_GetItemString(type->tp_dict, attribute.name) != nullptr) return;
  const nb::object descriptor = nb::steal(PyDescr_NewGetSet(type, &attribute));
  if (!descriptor.is_valid() || PyDict_SetItemString(type->tp_dict, attribute.name, descriptor.ptr()) != 0)
    nb::raise_python_error();
  PyType_Modified(type);
}

void explain_all(nb::handle dictionary, const std::string& package) {
  for (nb::handle value : nb::list(dictionary.attr("values")())) {
    const std::string_view type = Py_TYPE(value.ptr())->tp_name;
    if (type == "nanobind.nb_func" || type == "nanobind.nb_method") {
      explain(value);
      add_signature(Py_TYPE(value.ptr()));
      if (Py_TYPE(value.ptr())->tp_descr_get == nullptr) continue;
      const nb::object bound = nb::steal(Py_TYPE(value.ptr())->tp_descr_get(value.ptr(), Py_True, nullptr));
      if (bound.is_valid()) add_signature(Py_TYPE(bound.ptr()));
    } else if (PyModule_Check(value.ptr())) {
      if (nb::cast<std::string>(nb::object(value.attr("__name__"))).starts_with(package + "."))
        explain_all(value.attr("__dict__"), package);
    } else if (PyType_Check(value.ptr()) && nb::type_check(value)) {
      explain_all(value.attr("__dict__"), package);
    }
  }
}

}  // namespace

void explain_calls(nb::module_& m) {
  explain_all(m.attr("__dict__"), nb::cast<std::string>(nb::object(m.attr("__name__"))));
}

}  // namespace gpukit::python
