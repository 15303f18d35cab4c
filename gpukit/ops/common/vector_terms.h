// Polynomials of vector_math.h: Chebyshev fits, lowest power first. Full errs by less than 2^-56 of the function, Short
// by less than 2^-30.
#pragma once

namespace gpukit::cpu::vector {

struct Full {
  static constexpr bool kFull = true;
  /// (exp(r) - 1 - r) / r^2, |r| <= log(2) / 2.
  static constexpr double kExp[] = {0x1.0000000000000p-1,  0x1.5555555555557p-3,  0x1.5555555555556p-5,
                                    0x1.11111111100dcp-7,  0x1.6c16c16c162d4p-10, 0x1.a01a01abe7fe1p-13,
                                    0x1.a01a01a6d889cp-16, 0x1.71de0231960ebp-19, 0x1.27e4db646b17ep-22,
                                    0x1.af4de97ca4194p-26, 0x1.1f730349868cep-29};
  /// (2 atanh(s) / s - 2) / z of z = s^2, s = f / (2 + f).
  static constexpr double kLog[] = {0x1.5555555555558p-1, 0x1.99999999952d7p-2, 0x1.2492492df281ap-2,
                                    0x1.c71c62e3f11e6p-3, 0x1.7462b51cb66b1p-3, 0x1.39fe51a7c18f9p-3,
                                    0x1.2b5900de53b32p-3};
  /// kLog without its first term, over z.
  static constexpr double kLogTail[] = {0x1.999999999999ap-2, 0x1.2492492492521p-2, 0x1.c71c71c6eaa10p-3,
                                        0x1.745d177a96056p-3, 0x1.3b1395d2190c1p-3, 0x1.1118c7e4b0917p-3,
                                        0x1.df7cc8e5fa539p-4, 0x1.e02e6fff27908p-4};
  /// (sin(r) / r - 1) / z of z = r^2, |r| <= pi / 4.
  static constexpr double kSin[] = {-0x1.5555555555555p-3, 0x1.1111111111110p-7,   -0x1.a01a01a019936p-13,
                                    0x1.71de3a54605eep-19, -0x1.ae64541266378p-26, 0x1.61217ec01749dp-33,
                                    -0x1.ab17a79237a19p-41};
  /// (cos(r) - 1 + z / 2) / z^2.
  static constexpr double kCos[] = {0x1.5555555555555p-5,   -0x1.6c16c16c16966p-10, 0x1.a01a019f4e867p-16,
                                    -0x1.27e4fa17a41b4p-22, 0x1.1eeb68b109173p-29,  -0x1.907d7aebd5e3dp-37};
  /// (atan(t) / t - 1) / z of z = t^2, |t| <= tan(pi / 8).
  static constexpr double kAtan[] = {-0x1.5555555555555p-2, 0x1.9999999999349p-3,  -0x1.2492492435f94p-3,
                                     0x1.c71c718525179p-4,  -0x1.745d0b24c84b9p-4, 0x1.3b1262ac559fcp-4,
                                     -0x1.10fa72be60a88p-4, 0x1.dfe5f37f19c8bp-5,  -0x1.a097da67e4438p-5,
                                     0x1.415dac51cd10bp-5,  -0x1.3a254249c2220p-6};
  /// (asin(v) / v - 1) / z of z = v^2, |v| <= 1 / 2.
  static constexpr double kAsin[] = {
      0x1.5555555555556p-3, 0x1.3333333332ec4p-4,  0x1.6db6db6e3292ep-5, 0x1.f1c71c1d4aa0dp-6, 0x1.6e8bb1d89492bp-6,
      0x1.1c4d343fa57f6p-6, 0x1.c9cf3759fd8ffp-7,  0x1.78246f32d075cp-7, 0x1.524ea8b3aad31p-7, 0x1.653a8f8cfd43cp-8,
      0x1.1d661531b222ep-6, -0x1.e7a24f548c99fp-7, 0x1.d78189767524ep-6};
};

struct Short {
  static constexpr bool kFull = false;
  static constexpr double kExp[] = {0x1.0000000b9129bp-1, 0x1.5555555a78ed4p-3,  0x1.5554e9063586ep-5,
                                    0x1.1110e0f238322p-7, 0x1.6d43246b523b4p-10, 0x1.a124f19fe89acp-13};
  static constexpr double kLog[] = {0x1.5555554bb1b2fp-1, 0x1.9999eb63e783dp-2, 0x1.245c40aecb50cp-2,
                                    0x1.ddcf7101b6371p-3};
  static constexpr double kSin[] = {-0x1.555555545dd83p-3, 0x1.11110deeb33b2p-7, -0x1.a013a6edc8f34p-13,
                                    0x1.6dbdd26f56d2dp-19};
  static constexpr double kCos[] = {0x1.555554414e3a6p-5, -0x1.6c12d2887c343p-10, 0x1.9bd86445fb99bp-16};
  static constexpr double kAtan[] = {-0x1.5555554c08459p-2, 0x1.99997b0c8f05dp-3,  -0x1.248a15aea4f3ep-3,
                                     0x1.c57b7511769c5p-4,  -0x1.6142a652e8cdbp-4, 0x1.9d82b422820a2p-5};
  static constexpr double kAsin[] = {0x1.5555555c06d99p-3, 0x1.33331ec1202bdp-4, 0x1.6dc0f61ccc6c3p-5,
                                     0x1.efed0c67f5d24p-6, 0x1.82e318947cfa5p-6, 0x1.5a41fba7de28bp-7,
                                     0x1.fbaa70c46e293p-6};
};

}  // namespace gpukit::cpu::vector
