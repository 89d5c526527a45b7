// Kernels that read textures, and read and write surfaces.
extern "C" {

__global__ void fetch(cudaTextureObject_t texture, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex1Dfetch<float>(texture, i);
}

// Reads texels at a distance from their corners, row after row.
__global__ void sample(cudaTextureObject_t texture, float* out, int width, int height, float dx,
                       float dy) {
  const int x = threadIdx.x, y = blockIdx.x;
  if (x < width && y < height) out[y * width + x] = tex2D<float>(texture, x + dx, y + dy);
}

__global__ void sample_slice(cudaTextureObject_t texture, float* out, int width, float z) {
  out[blockIdx.x * width + threadIdx.x] =
      tex3D<float>(texture, threadIdx.x + 0.5f, blockIdx.x + 0.5f, z);
}

__global__ void sample_layer(cudaTextureObject_t texture, float* out, int width, int layer) {
  out[blockIdx.x * width + threadIdx.x] =
      tex2DLayered<float>(texture, threadIdx.x + 0.5f, blockIdx.x + 0.5f, layer);
}

// Reads a level at coordinates from 0 to 1.
__global__ void sample_level(cudaTextureObject_t texture, float* out, int width, int height,
                             float level) {
  out[blockIdx.x * width + threadIdx.x] =
      tex2DLod<float>(texture, (threadIdx.x + 0.5f) / width, (blockIdx.x + 0.5f) / height, level);
}

// Reads bytes as numbers from 0 to 1.
__global__ void sample_bytes(cudaTextureObject_t texture, float4* out, int width) {
  out[threadIdx.x] = tex2D<float4>(texture, threadIdx.x + 0.5f, 0.5f);
}

__global__ void add_to_surface(cudaSurfaceObject_t surface, float value) {
  float was;
  surf2Dread(&was, surface, threadIdx.x * 4, blockIdx.x);
  surf2Dwrite(was + value, surface, threadIdx.x * 4, blockIdx.x);
}

}  // extern "C"
