// Reading kernel signatures: names from the text, types from the compiler's mangled names.
#include <gtest/gtest.h>

#include "gpukit/base/error.h"
#include "gpukit/jit/lexer.h"
#include "gpukit/jit/mangled.h"
#include "gpukit/jit/signature.h"

namespace gpukit::jit {
namespace {

using Names = std::vector<std::string>;
using Status = Signature::Status;

Names names_of(std::string_view source, std::string_view function = "k") {
  const Signature signature = read_signature(source, function);
  EXPECT_EQ(signature.status, Status::found) << source;
  return signature.declarations.empty() ? Names{"none"} : signature.names(signature.declarations.back().size());
}

TEST(Lexer, DropsCommentsStringsKeepRawTextAndDirectives) {
  const auto list = tokens("a /* b */ \"c // d\" // e\n R\"x(f\" ) )x\" 1'000.5f g");
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(list[1].value, "\"c // d\"");
  EXPECT_EQ(list[2].value, "R\"x(f\" ) )x\"");
  EXPECT_EQ(list[3].value, "1'000.5f");
  EXPECT_EQ(list[4].value, "g");
}

TEST(Lexer, DirectivesJoinContinuedLines) {
  const auto lines = directives("  #  define A \\\n  b // c\nint x; # not one\n/* # no */ #include \"y//z\"\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "  define A   b  ");
  EXPECT_EQ(lines[1], "include \"y//z\"");
}

TEST(Lexer, NeverFails) {
  for (std::string_view text : {"\"", "'\\", "/*", "R\"(", "R\"", "\\", "#", "# \\", "//\\\n", "(((", ""}) {
    tokens(text);
    directives(text);
    read_signature(text, "k");
  }
}

TEST(Signature, PlainParameters) {
  EXPECT_EQ(names_of("__global__ void k(float* x, float factor, int n) {}"), (Names{"x", "factor", "n"}));
  EXPECT_EQ(names_of("extern \"C\" __global__ void __launch_bounds__(256, 2) k(const float *__restrict__ x){}"),
            (Names{"x"}));
  EXPECT_EQ(names_of("extern \"C\" { void __global__ k(unsigned n, unsigned long long m); }"), (Names{"n", "m"}));
  EXPECT_EQ(names_of("__global__ void k() {}"), Names{});
  EXPECT_EQ(names_of("__global__ void k(void) {}"), Names{});
}

TEST(Signature, HardDeclarators) {
  EXPECT_EQ(
      names_of("__global__ void k(ns::T* a, V<float, (3 > 2)> b, float c[4], float (*d)[4], int (*e)(int, int)) {}"),
      (Names{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(names_of("__global__ void k(struct S s, struct T, const Foo, size_t, int = 3, float x = f(1, 2)) {}"),
            (Names{"s", "", "", "", "", "x"}));
  EXPECT_EQ(names_of("#define PTR(T) T*\n__global__ void k(PTR(double) q, float NAME(x), ARGS) {}"),
            (Names{"q", "", ""}));
  EXPECT_EQ(names_of("#define n count\n__global__ void k(int n, int m) {}"), (Names{"", "m"}));
  EXPECT_EQ(names_of("__global__ __attribute__((annotate(\"x, y\"))) void k(int /* a, */ b, // c\n int d) {}"),
            (Names{"b", "d"}));
}

TEST(Signature, TemplatesAndNamespaces) {
  const char* source =
      "namespace ns { template <typename T, int N = (4 > 2)> __global__ void __launch_bounds__(N) k(T* x, int n) {} }"
      "__global__ void other(int a) { k<float><<<1, 1>>>(a); }";
  EXPECT_EQ(names_of(source, "ns::k<float, 4>"), (Names{"x", "n"}));
  EXPECT_TRUE(read_signature(source, "ns::k").is_template);
  EXPECT_FALSE(read_signature(source, "other").is_template);
  EXPECT_EQ(base_name("ns::k<a::b>"), "k");
  EXPECT_EQ(base_name("scale"), "scale");
}

TEST(Signature, SeveralDeclarations) {
  EXPECT_EQ(names_of("__global__ void k(int, int b);\n__global__ void k(int a, int b) {}"), (Names{"a", "b"}));
  EXPECT_EQ(names_of("#if X\n__global__ void k(int a, int b)\n#else\n__global__ void k(int c, int b)\n#endif\n{}"),
            (Names{"", "b"}));
  const Signature two = read_signature("__global__ void k(int a); __global__ void k(int a, float b);", "k");
  EXPECT_EQ(two.names(2), (Names{"a", "b"}));
  EXPECT_EQ(two.names(3), (Names{"", "", ""}));
}

TEST(Signature, MissingAndUnknown) {
  EXPECT_EQ(read_signature("__global__ void k(int a) {}", "j").status, Status::missing);
  EXPECT_EQ(read_signature("__device__ void k(int a) {}", "k").status, Status::missing);
  EXPECT_EQ(read_signature("// __global__ void k(int a) {}\n", "k").status, Status::missing);
  EXPECT_EQ(read_signature("const char* s = \"__global__ void k(int a) {}\";", "k").status, Status::missing);
  EXPECT_EQ(read_signature("__global__ void j(int a) { k(a); }", "k").status, Status::missing);
  EXPECT_EQ(read_signature("#define KERNEL(n) __global__ void n(int a) {}\nKERNEL(k)", "k").status, Status::unknown);
  EXPECT_EQ(read_signature("#include \"other.cuh\"\n", "k").status, Status::unknown);
}

std::vector<std::string> texts(std::string_view lowered) {
  std::vector<std::string> result;
  for (const ParameterType& type : parse_probe(lowered)) result.push_back(type.text);
  return result;
}

TEST(Mangled, ScalarsAndPointers) {
  EXPECT_EQ(texts("_Z12gpukit_probeIPFvPfPKfxEEvv"), (Names{"float*", "const float*", "long long"}));
  EXPECT_EQ(texts("_Z12gpukit_probeIPFvvEEvv"), Names{});
  const auto types = parse_probe("_Z12gpukit_probeIPFvbcahstijlmxyfdwDsEEvv");
  const DType expected[] = {DType::boolean, DType::int8,    DType::int8,  DType::uint8,  DType::int16, DType::uint16,
                            DType::int32,   DType::uint32,  DType::int64, DType::uint64, DType::int64, DType::uint64,
                            DType::float32, DType::float64, DType::int32, DType::uint16};
  ASSERT_EQ(types.size(), std::size(expected));
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(types[i].kind, ParameterType::Kind::scalar) << types[i].text;
    EXPECT_EQ(types[i].dtype, expected[i]) << types[i].text;
  }
}

TEST(Mangled, SubstitutionsAndStructs) {
  EXPECT_EQ(texts("_Z12gpukit_probeIPFv1SPS0_PKS0_PvPKvPPfPA4_f6float4RfPVKiPFiiEEEvv"),
            (Names{"S", "S*", "const S*", "void*", "const void*", "float**", "float (*)[4]", "float4", "float&",
                   "const volatile int*", "int (*)(int)"}));
  EXPECT_EQ(texts("_Z12gpukit_probeIPFvPN2ns1TES1_PKS1_NS0_1EENS0_2E2EEEvv"),
            (Names{"ns::T*", "ns::T", "const ns::T*", "ns::E", "ns::E2"}));
  EXPECT_EQ(texts("_Z12gpukit_probeIPFvN2ns1VIfLi3EEEPS2_PNS1_INS0_1TELi2EEEPKS5_EEvv"),
            (Names{"ns::V<float, 3>", "ns::V<float, 3>*", "ns::V<ns::T, 2>*", "const ns::V<ns::T, 2>*"}));
}

TEST(Mangled, WhatArraysArePassedFor) {
  auto one = [](std::string_view parameter) {
    return parse_probe("_Z12gpukit_probeIPFv" + std::string(parameter) + "EEvv").at(0);
  };
  EXPECT_TRUE(one("Pf").takes(DType::float32));
  EXPECT_FALSE(one("Pf").takes(DType::float64));
  EXPECT_FALSE(one("Pf").constant);
  EXPECT_TRUE(one("PKf").constant);
  EXPECT_TRUE(one("PKN6gpukit4halfE").takes(DType::float16));
  EXPECT_FALSE(one("PKN6gpukit4halfE").takes(DType::bfloat16));
  EXPECT_TRUE(one("P13__nv_bfloat16").takes(DType::bfloat16));
  EXPECT_TRUE(one("P6float2").takes(DType::complex64));
  EXPECT_TRUE(one("P6float4").takes(DType::float32));
  EXPECT_TRUE(one("PN6gpukit7complexIfEE").takes(DType::complex64));
  EXPECT_TRUE(one("Pv").takes(DType::int4));
  EXPECT_TRUE(one("P1S").takes(DType::uint8));
  EXPECT_FALSE(one("P1S").takes(DType::float32));
  EXPECT_TRUE(one("PPf").takes(DType::uint64));
  EXPECT_EQ(one("1S").kind, ParameterType::Kind::unsupported);
  EXPECT_EQ(one("PFvvE").kind, ParameterType::Kind::unsupported);
  EXPECT_EQ(one("N6gpukit4halfE").dtype, DType::float16);
  EXPECT_EQ(one("DF16_").dtype, DType::float16);
}

TEST(Mangled, RefusesWhatItCannotRead) {
  for (std::string_view bad : {"", "_Z", "scale", "_Z3k", "_Z1kIfEvv", "_Z1kIPFvS9_EEvv", "_Z1kIPFv99xEEvv",
                               "_Z1kIPFvPEEvv", "_Z1kIPFvN2nsEEvv", "_Z1kIPFv", "_Z1kIPFvDqEEvv"}) {
    EXPECT_THROW(parse_probe(bad), FormatError) << bad;
  }
  EXPECT_THROW(parse_probe("_Z1kI" + std::string(1000, 'P')), FormatError);
}

}  // namespace
}  // namespace gpukit::jit
