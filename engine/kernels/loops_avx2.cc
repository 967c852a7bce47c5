#define SLUICE_ISA avx2
#define SLUICE_ISA_NAME "avx2"
#define SLUICE_VECTOR_BYTES 32
#include "engine/kernels/loops.inc"
