#include "server/gpu_server/nvml/readings.h"

#include <cstdio>
#include <cstring>
#include <map>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "server/gpu_server/nvml/sampler.h"

namespace warpline::nvml {
namespace {

// An NVML with devices at 0000:0f:00.0 and 0000:1f:00.0, of which the first supports some of what
// is asked.
int g_device;
int g_other;
int g_reads = 0;
int Init() { return 0; }
int InitFails() { return 9; }
int DriverVersion(char* text, uint32_t size) {
  std::snprintf(text, size, "580.1");
  return 0;
}
int ByBusId(const char* id, void** device) {
  ++g_reads;
  const bool other = std::strcmp(id, "0000:1f:00.0") == 0;
  *device = other ? &g_other : &g_device;
  return other || std::strcmp(id, "0000:0f:00.0") == 0 ? 0 : 6;
}
int P2pStatus(void* one, void* other, uint32_t capability, uint32_t* status) {
  if (capability > 3) return 3;
  *status = one == &g_device && other == &g_other ? 10 + capability : 99;
  return 0;
}
int CommonAncestor(void* one, void* other, uint32_t* level) {
  *level = one == &g_device && other == &g_other ? 30 : 99;
  return 0;
}
int Temperature(void* device, uint32_t sensor, uint32_t* value) {
  *value = 40 + sensor;
  return device == &g_device ? 0 : 2;
}
int Margin(void*, void* margin) {
  uint32_t version = 0;
  std::memcpy(&version, margin, sizeof(version));
  const int32_t degrees = -3;
  std::memcpy(static_cast<char*>(margin) + 4, &degrees, sizeof(degrees));
  return version == (8 | 1 << 24) ? 0 : 25;
}
int Utilization(void*, void* rates) {
  const uint32_t values[2] = {12, 34};
  std::memcpy(rates, values, sizeof(values));
  return 0;
}
int Constraints(void*, uint32_t* least, uint32_t* most) {
  *least = 200000;
  *most = 700000;
  return 0;
}
int EccErrors(void*, uint32_t type, uint32_t counter, unsigned long long* count) {
  *count = (1ull << 40) + 10ull * type + counter;
  return 0;
}
int FanSpeed(void*, uint32_t* value) {
  *value = 77;
  return 3;  // Not supported.
}
int Vbios(void*, char* text, uint32_t size) {
  std::snprintf(text, size, "96.00");
  return 0;
}
int LinkState(void*, uint32_t link, uint32_t* active) {
  *active = link == 1;
  return link < 2 ? 0 : 2;
}
int LinkVersion(void*, uint32_t, uint32_t* version) {
  *version = 4;
  return 0;
}

struct Field {
  uint32_t id, scope;
  int64_t time, latency;
  uint32_t type;
  int result;
  uint64_t value;
};
int FieldValues(void*, int count, Field* fields) {
  for (int i = 0; i < count; ++i) {
    const uint32_t id = fields[i].id;
    fields[i].result = id == 82 || id == 165 || id == 185 || id == 189 || id == 193 ? 0 : 3;
    fields[i].type = id == 193 ? 5 : id == 185 ? 3 : 1;
    fields[i].value = 100 + fields[i].scope;
    // NVML leaves in the upper bits what the caller's structure had there.
    if (id == 189) fields[i].value |= 418000ull << 32;
    if (id == 185) fields[i].value |= 1ull << 40;
    if (id == 193) fields[i].value = 0xfffffff8;
  }
  return 0;
}

template <typename Function>
void* Address(Function* function) {
  return reinterpret_cast<void*>(function);
}

Lookup Functions() {
  return [functions = std::map<std::string, void*>{
              {"nvmlInit_v2", Address(Init)},
              {"nvmlSystemGetDriverVersion", Address(DriverVersion)},
              {"nvmlDeviceGetHandleByPciBusId_v2", Address(ByBusId)},
              {"nvmlDeviceGetTemperature", Address(Temperature)},
              {"nvmlDeviceGetMarginTemperature", Address(Margin)},
              {"nvmlDeviceGetUtilizationRates", Address(Utilization)},
              {"nvmlDeviceGetPowerManagementLimitConstraints", Address(Constraints)},
              {"nvmlDeviceGetTotalEccErrors", Address(EccErrors)},
              {"nvmlDeviceGetFanSpeed", Address(FanSpeed)},
              {"nvmlDeviceGetVbiosVersion", Address(Vbios)},
              {"nvmlDeviceGetNvLinkState", Address(LinkState)},
              {"nvmlDeviceGetNvLinkVersion", Address(LinkVersion)},
              {"nvmlDeviceGetFieldValues", Address(FieldValues)},
              {"nvmlDeviceGetP2PStatus", Address(P2pStatus)},
              {"nvmlDeviceGetTopologyCommonAncestor", Address(CommonAncestor)},
          }](const char* name) -> void* {
    const auto found = functions.find(name);
    return found == functions.end() ? nullptr : found->second;
  };
}

TEST(ReadingsTest, EveryShapeOfFunctionIsRead) {
  const auto library = Library::Start(Functions());
  ASSERT_TRUE(library.ok());
  EXPECT_EQ((*library)->driver_version(), "580.1");
  EXPECT_EQ((*library)->nvml_version(), "");
  const Readings readings = (*library)->Read("0000:0f:00.0");
  const std::map<std::string, uint64_t> expected = {
      {"temperature_0", 40},
      {"utilization", 12},
      {"utilization_memory", 34},
      {"power_min_mw", 200000},
      {"power_max_mw", 700000},
      {"ecc_errors_0_0", 1ull << 40},
      {"ecc_errors_1_1", (1ull << 40) + 11},
      {"nvlink_0", 0},
      {"nvlink_1", 1},
      {"nvlink_1_version", 4},
      {"field_82", 100},
      {"field_165", 100},
      {"field_165_17", 117},
      {"field_165_17_type", 1},
      {"field_185", 100 + (1ull << 40)},
      {"field_185_2", 102 + (1ull << 40)},
      {"field_189", 100},
      {"field_193", 0xfffffff8},
      {"temperature_margin", 0xfffffffd},
  };
  for (const auto& [name, value] : expected) {
    ASSERT_EQ(readings.numbers.count(name), 1u) << name;
    EXPECT_EQ(readings.numbers.at(name), value) << name;
  }
  EXPECT_EQ(readings.texts.at("vbios_version"), "96.00");
}

TEST(ReadingsTest, WhatIsNotSupportedIsLeftOut) {
  const auto library = Library::Start(Functions());
  ASSERT_TRUE(library.ok());
  const Readings readings = (*library)->Read("0000:0f:00.0");
  EXPECT_EQ(readings.numbers.count("fan_speed"), 0u);
  EXPECT_EQ(readings.numbers.count("power_mw"), 0u);
  EXPECT_EQ(readings.numbers.count("nvlink_2"), 0u);
  EXPECT_TRUE((*library)->Read("0000:10:00.0").numbers.empty());
}

TEST(ReadingsTest, WhatDoesNotChangeIsTakenFromTheFormerReadings) {
  const auto library = Library::Start(Functions());
  ASSERT_TRUE(library.ok());
  Readings former;
  former.numbers = {{"temperature_0", 1}, {"power_min_mw", 1}, {"fan_speed", 1}};
  const Readings readings = (*library)->Read("0000:0f:00.0", former);
  EXPECT_EQ(readings.numbers.at("temperature_0"), 40u);
  EXPECT_EQ(readings.numbers.at("power_min_mw"), 1u);
  EXPECT_EQ(readings.numbers.count("fan_speed"), 0u);
  EXPECT_TRUE((*library)->Read("0000:10:00.0", former).numbers.empty());
}

TEST(ReadingsTest, WhatLiesBetweenTwoDevicesIsRead) {
  const auto library = Library::Start(Functions());
  ASSERT_TRUE(library.ok());
  const std::map<std::string, uint64_t> expected = {
      {"p2p_0", 10}, {"p2p_1", 11}, {"p2p_2", 12}, {"p2p_3", 13}, {"topology", 30}};
  EXPECT_EQ((*library)->ReadPair("0000:0f:00.0", "0000:1f:00.0"), expected);
  EXPECT_TRUE((*library)->ReadPair("0000:0f:00.0", "0000:2f:00.0").empty());
}

TEST(ReadingsTest, NvmlThatDoesNotStartIsUnavailable) {
  const auto library = Library::Start([](const char*) { return Address(InitFails); });
  EXPECT_EQ(library.status().code(), absl::StatusCode::kUnavailable);
}

TEST(SamplerTest, ReadingsAreTakenAnewOnlyWhenTheyAreOldAndWanted) {
  g_reads = 0;
  SamplerOptions options;
  options.pci_bus_ids = {"0000:0f:00.0"};
  options.load = [] { return Library::Start(Functions()); };
  options.fresh = absl::InfiniteDuration();
  options.patience = absl::Seconds(30);
  {
    Sampler sampler(options);
    EXPECT_EQ(sampler.Get()->devices.at("0000:0f:00.0").numbers.at("temperature_0"), 40u);
    EXPECT_EQ(sampler.Get()->driver_version, "580.1");
  }
  EXPECT_EQ(g_reads, 1);
  options.fresh = absl::ZeroDuration();
  {
    Sampler sampler(options);
    sampler.Get();
    sampler.Get();
  }
  EXPECT_GE(g_reads, 3);
}

TEST(SamplerTest, EveryTwoDevicesArePairedOnce) {
  SamplerOptions options;
  options.pci_bus_ids = {"0000:0f:00.0", "0000:1f:00.0"};
  options.load = [] { return Library::Start(Functions()); };
  options.fresh = absl::ZeroDuration();
  options.patience = absl::Seconds(30);
  Sampler sampler(options);
  for (int i = 0; i < 2; ++i) {
    const auto sample = sampler.Get();
    EXPECT_EQ(sample->pairs.size(), 2u);
    EXPECT_EQ(sample->pairs.at({"0000:0f:00.0", "0000:1f:00.0"}).at("topology"), 30u);
  }
}

TEST(SamplerTest, WithoutNvmlTheSampleIsEmptyAndNobodyWaits) {
  SamplerOptions options;
  options.load = [] { return absl::UnavailableError("none here"); };
  options.patience = absl::InfiniteDuration();
  Sampler sampler(options);
  EXPECT_TRUE(sampler.Get()->devices.empty());
}

}  // namespace
}  // namespace warpline::nvml
