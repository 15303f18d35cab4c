// What the files of gpukit/python share: type objects found once, NumPy on first use, the deleter queue.
#pragma once

#include <optional>

#include "gpukit/python/bind.h"

namespace gpukit::python {

/// The class GPUArray, set when it is bound.
extern PyTypeObject* array_type;

/// The module numpy, imported at first use.
nb::handle numpy();
/// True for an instance of numpy.generic / numpy.ndarray; false when NumPy was never imported.
bool is_numpy_scalar(nb::handle value);
bool is_numpy_array(nb::handle value);
/// Throws TypeError: `use gp.asarray(x) first`.
[[noreturn]] void refuse_numpy(const char* op);

/// DataType objects of Python by DType. `index` follows the enum.
void register_dtype(int index, nb::object object);
/// The NumPy dtype that holds `dtype` bit by bit (uint16 for bfloat16, uint8 for float8 and packed types).
nb::object numpy_dtype(DType dtype);
/// The dtype of a NumPy dtype object, ml_dtypes included. Throws DTypeError `Unsupported dtype ...`.
DType dtype_from_numpy(nb::handle dtype);

/// Device new arrays go to when neither argument nor session says; set by core.backend.set_backend.
void set_backend_device(std::optional<Device> device);

/// Runs `release(context)` with the GIL held: now if this thread holds it, else at the next call or pending-call point.
void release_with_gil(void (*release)(void*), void* context) noexcept;
/// Runs what release_with_gil queued. The GIL is held.
void run_queued_releases();

/// An array over a block that core.backend's allocate() gave, or over any address when the array does not own it.
/// Throws Error `Invalid device pointer`.
Array array_at(uint64_t address, const Dims& shape, DType dtype, bool owns_memory, Device device);

/// Element 0's address for another library; the block stays where it is for life.
uint64_t pinned_address(const Array& array);

/// `module.Class` of the object's type, for messages.
std::string class_of(nb::handle value);

void bind_session(nb::module_& m);
void bind_dtypes(nb::module_& m);
void bind_array(nb::module_& m);
void bind_array_operators(nb::class_<Array>& array);
void bind_array_methods(nb::class_<Array>& array);
void bind_factory(nb::module_& m);
void bind_devices(nb::module_& m);
void bind_streams(nb::module_& m);
void bind_graphs(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_interop(nb::module_& m, nb::class_<Array>& array);
void bind_log(nb::module_& m);
void bind_report(nb::module_& m);

}  // namespace gpukit::python
