# Run as a script: turns the files named in LISTING into OUTPUT, a table of name and bytes.
# A literal is split below the 16 KiB that some compilers allow for one.
file(STRINGS "${LISTING}" files)
set(bodies "")
set(rows "")
set(index 0)
foreach(file IN LISTS files)
  file(RELATIVE_PATH name "${ROOT}" "${file}")
  file(READ "${file}" text)
  string(LENGTH "${text}" length)
  set(literal "")
  set(position 0)
  while(position LESS length)
    string(SUBSTRING "${text}" ${position} 8000 part)
    string(APPEND literal "\n    R\"gpukit~(${part})gpukit~\"")
    math(EXPR position "${position} + 8000")
  endwhile()
  if(literal STREQUAL "")
    set(literal " \"\"")
  endif()
  string(APPEND bodies "const char file_${index}[] =${literal};\n")
  string(APPEND rows "    {\"${name}\", file_${index}, sizeof(file_${index}) - 1},\n")
  math(EXPR index "${index} + 1")
endforeach()
if(index EQUAL 0)
  set(table "  return {};\n")
else()
  set(table "  static const EmbeddedFile files[] = {\n${rows}  };\n  return files;\n")
endif()
file(WRITE "${OUTPUT}" "// Generated from the kernel sources.
#include \"gpukit/jit/embedded.h\"

namespace gpukit::jit {

namespace {
${bodies}}  // namespace

std::span<const EmbeddedFile> embedded_files() {
${table}}

}  // namespace gpukit::jit
")
