#define SLUICE_ISA widen_avx512
#define SLUICE_ISA_NAME "avx512"
#include "engine/widen_loops.inc"
