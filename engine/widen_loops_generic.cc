#define SLUICE_ISA widen_generic
#define SLUICE_ISA_NAME "generic"
#include "engine/widen_loops.inc"
