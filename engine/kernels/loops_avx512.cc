#define SLUICE_ISA avx512
#define SLUICE_ISA_NAME "avx512"
#define SLUICE_VECTOR_BYTES 64
#include "engine/kernels/loops.inc"
