/* NVML's functions about connections between devices: NVLink, peers, topology. */
#include <stdio.h>
#include <string.h>

#include "client_stub/nvml/facts.h"

enum { kMaxLinks = 36, kCapabilities = 6 };

/* The number "nvlink_LINK" + rest. */
static int LinkNumber(nvmlDevice_t device, uint32_t link, enum WarplineAge age, const char* rest,
                      uint32_t* value) {
  char name[64];
  uint64_t wide = 0;
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (link >= kMaxLinks || value == NULL) return kNvmlInvalidArgument;
  snprintf(name, sizeof(name), "nvlink_%u%s", link, rest);
  NVML_TRY(WarplineNumber(device, age, name, &wide));
  *value = (uint32_t)wide;
  return kNvmlSuccess;
}

int nvmlDeviceGetNvLinkState(nvmlDevice_t device, uint32_t link, uint32_t* active) {
  return LinkNumber(device, link, kWarplineNow, "", active);
}

int nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, uint32_t link, uint32_t* version) {
  return LinkNumber(device, link, kWarplineFixed, "_version", version);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, uint32_t link, uint32_t* type) {
  return LinkNumber(device, link, kWarplineFixed, "_remote_type", type);
}

int nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, uint32_t link, uint32_t capability,
                                  uint32_t* value) {
  char rest[32];
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (capability >= kCapabilities) return kNvmlInvalidArgument;
  snprintf(rest, sizeof(rest), "_capability_%u", capability);
  return LinkNumber(device, link, kWarplineFixed, rest, value);
}

static int Remote(nvmlDevice_t device, uint32_t link, struct NvmlPciInfo* pci) {
  char name[64];
  char bus_id[64];
  uint64_t id = 0;
  NVML_TRY(WarplineDeviceIndex(device, &(uint32_t){0}));
  if (link >= kMaxLinks || pci == NULL) return kNvmlInvalidArgument;
  snprintf(name, sizeof(name), "nvlink_%u_remote", link);
  NVML_TRY(WarplineText(device, name, bus_id, sizeof(bus_id)));
  memset(pci, 0, sizeof(*pci));
  if (sscanf(bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3) {
    return kNvmlNotSupported;
  }
  snprintf(name, sizeof(name), "nvlink_%u_remote_id", link);
  if (WarplineNumber(device, kWarplineFixed, name, &id) == kNvmlSuccess) {
    pci->device_id = (uint32_t)id;
  }
  snprintf(pci->legacy_bus_id, sizeof(pci->legacy_bus_id), "%04X:%02X:%02X.0", pci->domain & 0xffff,
           pci->bus & 0xff, pci->device & 0xff);
  snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff,
           pci->device & 0xff);
  return kNvmlSuccess;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, uint32_t link,
                                        struct NvmlPciInfo* pci) {
  return Remote(device, link, pci);
}

int nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, uint32_t link, struct NvmlPciInfo* pci) {
  struct NvmlPciInfo full;
  if (pci == NULL) return kNvmlInvalidArgument;
  NVML_TRY(Remote(device, link, &full));
  memcpy(pci, &full, offsetof(struct NvmlPciInfo, bus_id));
  return kNvmlSuccess;
}

/* The number "peer_N_" + name of the first device, N being the second one's. For one device and
 * itself `alike`. */
static int Between(nvmlDevice_t one, nvmlDevice_t other, const char* name, uint32_t alike,
                   uint32_t* value) {
  char full[64];
  uint32_t index = 0;
  uint64_t wide = alike;
  NVML_TRY(WarplineDeviceIndex(one, &(uint32_t){0}));
  NVML_TRY(WarplineDeviceIndex(other, &index));
  if (value == NULL) return kNvmlInvalidArgument;
  snprintf(full, sizeof(full), "peer_%u_%s", index, name);
  if (one != other) NVML_TRY(WarplineNumber(one, kWarplineFixed, full, &wide));
  *value = (uint32_t)wide;
  return kNvmlSuccess;
}

int nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, uint32_t capability,
                           uint32_t* status) {
  enum { kOk = 0, kCapabilityCount = 6 };
  char name[32];
  NVML_TRY(WarplineDeviceIndex(one, &(uint32_t){0}));
  NVML_TRY(WarplineDeviceIndex(other, &(uint32_t){0}));
  if (capability >= kCapabilityCount) return kNvmlInvalidArgument;
  snprintf(name, sizeof(name), "p2p_%u", capability);
  return Between(one, other, name, kOk, status);
}

int nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, uint32_t* level) {
  enum { kInternal = 0 };
  return Between(one, other, "topology", kInternal, level);
}

int nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t other, int* on_same_board) {
  uint32_t same = 0;
  const int result = Between(one, other, "same_board", 1, &same);
  if (result != kNvmlSuccess && result != kNvmlNotSupported) return result;
  if (on_same_board == NULL) return kNvmlInvalidArgument;
  *on_same_board = (int)same;
  return kNvmlSuccess;
}
