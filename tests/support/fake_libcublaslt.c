/* A cuBLASLt library for tests of how it is found: it has every name and multiplies nothing. Built by the Python tests.
   FAKE_CUBLASLT_VERSION is the version it says; FAKE_CUBLASLT_LOG is a file that gets a line when it is opened. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void opened(void) {
  const char* path = getenv("FAKE_CUBLASLT_LOG");
  FILE* file = path != NULL ? fopen(path, "a") : NULL;
  if (file == NULL) return;
  fputs("opened\n", file);
  fclose(file);
}

size_t cublasLtGetVersion(void) {
  const char* version = getenv("FAKE_CUBLASLT_VERSION");
  return version != NULL ? (size_t)atol(version) : 120905;
}
const char* cublasLtGetStatusName(int status) { return status == 15 ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS"; }

#define NOT_SUPPORTED(name) \
  int name(void) { return 15; }
NOT_SUPPORTED(cublasLtCreate)
NOT_SUPPORTED(cublasLtDestroy)
NOT_SUPPORTED(cublasLtMatmulDescCreate)
NOT_SUPPORTED(cublasLtMatmulDescDestroy)
NOT_SUPPORTED(cublasLtMatmulDescSetAttribute)
NOT_SUPPORTED(cublasLtMatrixLayoutCreate)
NOT_SUPPORTED(cublasLtMatrixLayoutDestroy)
NOT_SUPPORTED(cublasLtMatrixLayoutSetAttribute)
NOT_SUPPORTED(cublasLtMatmulPreferenceCreate)
NOT_SUPPORTED(cublasLtMatmulPreferenceDestroy)
NOT_SUPPORTED(cublasLtMatmulPreferenceSetAttribute)
NOT_SUPPORTED(cublasLtMatmulAlgoGetHeuristic)
NOT_SUPPORTED(cublasLtMatmul)
