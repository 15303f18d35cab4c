#include <nanobind/stl/string.h>

#include "gpukit/base/env.h"
#include "gpukit/python/bind.h"
#include "gpukit/runtime/session.h"

namespace gpukit {
namespace {

using env::Determinism;

struct DeterminismScope {
  Determinism level;
};

DeterminismScope make_scope(const std::string& level) {
  for (Determinism known : {Determinism::not_guaranteed, Determinism::run_to_run, Determinism::batch_invariant})
    if (level == env::name(known)) return {known};
  throw ArgumentError("determinism", "level", "be 'not_guaranteed', 'run_to_run' or 'batch_invariant'",
                      "'" + level + "'");
}

}  // namespace

void bind_determinism(nb::module_& m) {
  nb::class_<DeterminismScope>(m, "_DeterminismScope", "What determinism() returns; internal.")
      .def(
          "__enter__",
          [](nb::handle self) {
            const DeterminismScope& scope = nb::cast<const DeterminismScope&>(self);
            python::push_session(self, python::outer_session().with_determinism(scope.level));
            return std::string(env::name(scope.level));
          },
          nb::sig("def __enter__(self) -> str"))
      .def(
          "__exit__", [](nb::handle self, nb::args) { python::pop_session(self); },
          nb::sig("def __exit__(self, *args: object) -> None"));
  m.def("determinism", &make_scope, "level"_a,
        "`with determinism(level):` promises more, or less, about the bits of results inside the block: "
        "'not_guaranteed', 'run_to_run' (the default: the same call gives the same bits) or 'batch_invariant' (a row's "
        "bits do not depend on the rows beside it either).");
  m.def(
      "get_determinism", [] { return python::in_scope([] { return std::string(env::name(runtime::determinism())); }); },
      "The level in force here: that of the innermost determinism(), else of PYGPUKIT_DETERMINISM.");
}

}  // namespace gpukit
