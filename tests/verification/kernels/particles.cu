// One explicit step for particles of four floats: position and mass.
// optiml: n = 20000, dt = 0.01, position[n]: normal, velocity[n]: normal, force[n]: normal
// optiml: block = 128, grid = ceil_div(n, 128)
__global__ void particles(float4* position, float4* velocity, const float4* force, int n, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 p = position[i], v = velocity[i], f = force[i];
  float scale = dt / (1.f + fabsf(p.w));
  v.x += scale * f.x;
  v.y += scale * f.y;
  v.z += scale * f.z;
  p.x += dt * v.x;
  p.y += dt * v.y;
  p.z += dt * v.z;
  position[i] = p;
  velocity[i] = v;
}
