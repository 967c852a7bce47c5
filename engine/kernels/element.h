// engine/kernels/element.h
//
// Element types as C++ types: model/element.h, for kernels.

#ifndef SLUICE_ENGINE_KERNELS_ELEMENT_H_
#define SLUICE_ENGINE_KERNELS_ELEMENT_H_

#include "model/element.h"

#endif  // SLUICE_ENGINE_KERNELS_ELEMENT_H_
