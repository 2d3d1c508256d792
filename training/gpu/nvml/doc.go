// Package nvml reads GPUs by NVIDIA's driver library. It needs cgo and is linked by sluice-gpu alone; everything else asks that program,
// by package gpu/helper.
package nvml
