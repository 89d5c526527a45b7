#include "client_stub/private_tables/table_slots.h"

namespace warpline {
namespace {

std::atomic<DriverView*> g_view{nullptr};

}  // namespace

void SetView(DriverView* view) { g_view.store(view, std::memory_order_release); }

DriverView& View() { return *g_view.load(std::memory_order_acquire); }

}  // namespace warpline
