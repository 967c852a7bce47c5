// server/status_page.h
//
// A page for people: the budget, who has reserved what of it, and the models. Self-contained HTML
// without scripts.

#ifndef SLUICE_SERVER_STATUS_PAGE_H_
#define SLUICE_SERVER_STATUS_PAGE_H_

#include <string>

#include "server/metrics_collector.h"

namespace sluice {

std::string StatusPage(const MetricsInput& input);

}  // namespace sluice

#endif  // SLUICE_SERVER_STATUS_PAGE_H_
