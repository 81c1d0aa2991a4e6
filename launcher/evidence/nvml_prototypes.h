// The used part of NVML's interface, as own prototypes. Layouts and numbers are those of the versioned
// functions, which NVIDIA keeps stable.
#pragma once

#include <cstdint>

namespace xpurun::launcher::nvml {

using Device = void*;
using Return = int;

inline constexpr Return kSuccess = 0;
inline constexpr Return kDriverNotLoaded = 9;
inline constexpr Return kNoPermission = 4;
inline constexpr Return kGpuIsLost = 15;

inline constexpr unsigned kClockSm = 1;
inline constexpr unsigned kClockMemory = 2;
inline constexpr unsigned kSensorGpu = 0;
inline constexpr unsigned kErrorCorrected = 0;
inline constexpr unsigned kErrorUncorrected = 1;
inline constexpr unsigned kCounterVolatile = 0;
inline constexpr unsigned kCounterAggregate = 1;
inline constexpr unsigned kMostLinks = 18;
inline constexpr unsigned kLinkReplay = 0;
inline constexpr unsigned kLinkRecovery = 1;
inline constexpr unsigned kLinkCrcFlit = 2;
// NVML_FI_DEV_*. Those of links take the link as scope.
inline constexpr unsigned kFieldRetiredSingle = 29;
inline constexpr unsigned kFieldRetiredDouble = 30;
inline constexpr unsigned kFieldLinkReplay = 161;
inline constexpr unsigned kFieldLinkRecovery = 162;
inline constexpr unsigned kFieldLinkCrc = 163;
inline constexpr unsigned kFieldLinkRecoveryEvents = 215;  // NVLink 5
// nvmlValueType_t
inline constexpr unsigned kFieldUnsigned = 1;
inline constexpr unsigned kFieldUnsignedLong = 2;
inline constexpr unsigned kFieldUnsignedLongLong = 3;
// nvmlGpuTopologyLevel_t
inline constexpr int kPathInternal = 0;
inline constexpr int kPathSingle = 10;
inline constexpr int kPathMultiple = 20;
inline constexpr int kPathHostBridge = 30;
inline constexpr int kPathNode = 40;
inline constexpr int kPathSystem = 50;
inline constexpr unsigned kLinkToSwitch = 2;        // NVML_NVLINK_DEVICE_TYPE_SWITCH
inline constexpr unsigned long long kEventXid = 8;  // nvmlEventTypeXidCriticalError
inline constexpr uint64_t kUnknownMemory = ~uint64_t{0};

struct Memory {
  uint64_t total;
  uint64_t free;
  uint64_t used;
};

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

struct Process {
  unsigned pid;
  uint64_t memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

// nvmlProcessUtilizationSample_t: percents over the last second or so.
struct ProcessLoad {
  unsigned pid;
  unsigned long long timestamp_us;
  unsigned sm;
  unsigned memory;
  unsigned encoder;
  unsigned decoder;
};
static_assert(sizeof(ProcessLoad) == 32);

struct Pci {
  char legacy_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char id[32];
};

struct FieldValue {
  unsigned id;
  unsigned scope;
  long long timestamp;
  long long latency_us;
  unsigned type;
  Return result;
  union {
    unsigned number;
    unsigned long long long_number;
  } value;
};
static_assert(sizeof(FieldValue) == 40);

struct Event {
  Device device;
  unsigned long long type;
  unsigned long long data;  // the Xid
  unsigned gpu_instance;
  unsigned compute_instance;
};

using EventSet = void*;

// nvmlGpmMetricId_t
inline constexpr unsigned kGpmGraphicsUtil = 1;
inline constexpr unsigned kGpmSmUtil = 2;
inline constexpr unsigned kGpmSmOccupancy = 3;
inline constexpr unsigned kGpmVersion = 1;

using GpmSample = void*;

struct GpmMetric {
  unsigned id;
  Return result;
  double value;
  const char* names[3];
};
static_assert(sizeof(GpmMetric) == 40);

// nvmlGpmMetricsGet_t, which has room for more metrics; NVML reads and writes `count` of them.
struct GpmMetrics {
  unsigned version;
  unsigned count;
  GpmSample first;
  GpmSample second;
  GpmMetric metrics[3];
};

struct GpmSupport {
  unsigned version;
  unsigned supported;
};

using Init = Return (*)();
using ErrorString = const char* (*)(Return);
using DriverVersion = Return (*)(char*, unsigned);
using Count = Return (*)(unsigned*);
using HandleByIndex = Return (*)(unsigned, Device*);
using Text = Return (*)(Device, char*, unsigned);
using Number = Return (*)(Device, unsigned*);
using NumberOf = Return (*)(Device, unsigned, unsigned*);
using Bits = Return (*)(Device, unsigned long long*);
using PciInfo = Return (*)(Device, Pci*);
using MemoryInfo = Return (*)(Device, Memory*);
using UtilizationRates = Return (*)(Device, Utilization*);
using EccErrors = Return (*)(Device, unsigned, unsigned, unsigned long long*);
using RemappedRows = Return (*)(Device, unsigned*, unsigned*, unsigned*, unsigned*);
using LinkState = Return (*)(Device, unsigned, unsigned*);
using LinkErrors = Return (*)(Device, unsigned, unsigned, unsigned long long*);
using FieldValues = Return (*)(Device, int, FieldValue*);
using TwoNumbers = Return (*)(Device, unsigned*, unsigned*);
using CommonAncestor = Return (*)(Device, Device, int*);
using LinkRemotePci = Return (*)(Device, unsigned, Pci*);
using LinkRemoteKind = Return (*)(Device, unsigned, unsigned*);
using EventSetCreate = Return (*)(EventSet*);
using EventSetFree = Return (*)(EventSet);
using RegisterEvents = Return (*)(Device, unsigned long long, EventSet);
using EventSetWait = Return (*)(EventSet, Event*, unsigned);
using Processes = Return (*)(Device, unsigned*, Process*);
using ProcessLoads = Return (*)(Device, ProcessLoad*, unsigned*, unsigned long long);
using GpmQuerySupport = Return (*)(Device, GpmSupport*);
using GpmAlloc = Return (*)(GpmSample*);
using GpmFree = Return (*)(GpmSample);
using GpmGet = Return (*)(Device, GpmSample);
using GpmCompute = Return (*)(GpmMetrics*);

}  // namespace xpurun::launcher::nvml
