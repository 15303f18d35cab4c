#include "gpukit/memory/stand_in.h"

#include <string>

#include "gpukit/base/error.h"

namespace gpukit::memory {

std::shared_ptr<Storage> make_stand_in(driver::Context& context, size_t bytes) {
  return Storage::adopt(context, 0, bytes, {});
}

void refuse_stand_ins(const char* what, std::span<const Use> uses) {
  for (const Use& use : uses)
    if (use.storage != nullptr && is_stand_in(**use.storage)) [[unlikely]]
      throw Error(std::string(what) +
                  ": an array that stood for a value while a function was traced has no memory; a traced function may "
                  "only return its arrays");
}

}  // namespace gpukit::memory
