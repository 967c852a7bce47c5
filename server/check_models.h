// server/check_models.h
//
// `sluiced --check`: everything that can be wrong before the daemon serves.

#ifndef SLUICE_SERVER_CHECK_MODELS_H_
#define SLUICE_SERVER_CHECK_MODELS_H_

#include <cstddef>

#include "server/config.h"

namespace sluice {

// Scans the repository, imports each model's structure and looks for kernels; logs a line for each
// model, and every error. Returns how many models are wrong.
std::size_t CheckModels(const Config& config);

}  // namespace sluice

#endif  // SLUICE_SERVER_CHECK_MODELS_H_
