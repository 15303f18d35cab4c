#include "gpukit/driver/dynlib.h"

#include <gtest/gtest.h>

#if defined(__linux__)
#include <unistd.h>
#endif

#include <filesystem>
#include <fstream>

namespace gpukit::driver {
namespace {

#if defined(__linux__)

TEST(Dynlib, OpensByNameAndKnowsThePath) {
  std::string reason;
  Dynlib library = Dynlib::open("libm.so.6", &reason);
  ASSERT_TRUE(library) << reason;
  EXPECT_EQ(library.path().front(), '/');
  EXPECT_TRUE(library.path().ends_with("libm.so.6")) << library.path();
  auto cosine = reinterpret_cast<double (*)(double)>(library.symbol("cos"));
  ASSERT_NE(cosine, nullptr);
  EXPECT_EQ(cosine(0.0), 1.0);
  EXPECT_EQ(library.symbol("no_such_symbol_here"), nullptr);
  Dynlib again = Dynlib::open(library.path(), nullptr);
  EXPECT_EQ(again.path(), library.path());
}

TEST(Dynlib, FindsOnlyWhatIsLoaded) {
  EXPECT_TRUE(Dynlib::find_loaded("libc.so.6"));
  EXPECT_FALSE(Dynlib::find_loaded("libgpukit-never-there.so.1"));
}

TEST(Dynlib, SaysWhyItFailed) {
  std::string reason;
  EXPECT_FALSE(Dynlib::open("libgpukit-never-there.so.1", &reason));
  EXPECT_EQ(reason, "cannot open shared object file: No such file or directory");

  std::string path =
      (std::filesystem::temp_directory_path() / ("gpukit-not-a-library-" + std::to_string(getpid()))).string();
  std::ofstream(path) << "this is text, and long enough not to be called too short by the loader of the system.\n";
  EXPECT_FALSE(Dynlib::open(path, &reason));
  EXPECT_NE(reason.find("ELF"), std::string::npos) << reason;
  EXPECT_FALSE(reason.starts_with(path)) << reason;
  std::filesystem::remove(path);
  EXPECT_FALSE(Dynlib::open(path, nullptr));
}

#endif

TEST(Dynlib, EmptyHasNoSymbols) {
  Dynlib library;
  EXPECT_FALSE(library);
  EXPECT_EQ(library.symbol("cos"), nullptr);
  library.close();
}

}  // namespace
}  // namespace gpukit::driver
