// Trains a small neural network by gradient descent, and prints how its error falls.
//
// The network learns sin(3x) from samples: one input, a layer of hidden units with tanh, one
// output. The host does the same with plain loops, and the two agree in the end.
#include <cmath>
#include <vector>

#include "check.h"

namespace {

constexpr int kSamples = 64;
constexpr int kHidden = 16;
constexpr int kThreads = 32;
constexpr float kRate = 0.1f;

// The parameters are one array: for each hidden unit its weight, its bias, and its weight in the
// output; then the output's bias.
constexpr int kParameters = 3 * kHidden + 1;

// One thread for each sample: what the hidden units and the network say, and by how much that is
// wrong.
__global__ void Forward(const float* parameters, const float* inputs, const float* wanted,
                        float* hidden, float* errors) {
  const int sample = blockIdx.x * blockDim.x + threadIdx.x;
  if (sample >= kSamples) return;
  float output = parameters[3 * kHidden];
  for (int unit = 0; unit < kHidden; ++unit) {
    const float value = tanhf(parameters[3 * unit] * inputs[sample] + parameters[3 * unit + 1]);
    hidden[sample * kHidden + unit] = value;
    output += parameters[3 * unit + 2] * value;
  }
  errors[sample] = output - wanted[sample];
}

// One thread for each parameter: how much the mean error changes with it.
__global__ void Backward(const float* parameters, const float* inputs, const float* hidden,
                         const float* errors, float* gradient) {
  const int parameter = blockIdx.x * blockDim.x + threadIdx.x;
  if (parameter >= kParameters) return;
  const int unit = parameter / 3;
  float sum = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    float change = errors[sample];
    if (unit < kHidden) {
      const float value = hidden[sample * kHidden + unit];
      const float inner = parameters[3 * unit + 2] * (1 - value * value);
      const float by[3] = {inner * inputs[sample], inner, value};
      change *= by[parameter % 3];
    }
    sum += change;
  }
  gradient[parameter] = 2 * sum / kSamples;
}

__global__ void Descend(const float* gradient, float* parameters) {
  const int parameter = blockIdx.x * blockDim.x + threadIdx.x;
  if (parameter < kParameters) parameters[parameter] -= kRate * gradient[parameter];
}

// Takes such a step on the host.
void StepOnHost(const std::vector<float>& inputs, const std::vector<float>& wanted,
                std::vector<float>* parameters) {
  std::vector<double> gradient(kParameters);
  for (int sample = 0; sample < kSamples; ++sample) {
    const float* const p = parameters->data();
    double hidden[kHidden];
    double error = p[3 * kHidden] - wanted[sample];
    for (int unit = 0; unit < kHidden; ++unit) {
      hidden[unit] = std::tanh(p[3 * unit] * inputs[sample] + p[3 * unit + 1]);
      error += p[3 * unit + 2] * hidden[unit];
    }
    for (int unit = 0; unit < kHidden; ++unit) {
      const double inner = p[3 * unit + 2] * (1 - hidden[unit] * hidden[unit]);
      gradient[3 * unit] += error * inner * inputs[sample];
      gradient[3 * unit + 1] += error * inner;
      gradient[3 * unit + 2] += error * hidden[unit];
    }
    gradient[3 * kHidden] += error;
  }
  for (int i = 0; i < kParameters; ++i) {
    (*parameters)[i] -= static_cast<float>(kRate * 2 * gradient[i] / kSamples);
  }
}

float* ToDevice(const std::vector<float>& values) {
  float* memory;
  CUDA_CHECK(cudaMalloc(&memory, values.size() * sizeof(float)));
  CUDA_CHECK(
      cudaMemcpy(memory, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
  return memory;
}

std::vector<float> FromDevice(const float* memory, size_t count) {
  std::vector<float> values(count);
  CUDA_CHECK(cudaMemcpy(values.data(), memory, count * sizeof(float), cudaMemcpyDeviceToHost));
  return values;
}

int BlocksFor(int threads) { return (threads + kThreads - 1) / kThreads; }

}  // namespace

int main(int argc, char** argv) {
  examples::Options options(argc, argv, "training", "trains a small neural network");
  const int steps = static_cast<int>(options.Number("steps", 400, "steps of gradient descent"));
  const int every = static_cast<int>(options.Number("print_every", 50, "steps between two lines"));
  options.Finish();

  std::vector<float> inputs(kSamples), wanted(kSamples), parameters(kParameters);
  for (int i = 0; i < kSamples; ++i) {
    inputs[i] = 2.0f * i / (kSamples - 1) - 1;
    wanted[i] = std::sin(3 * inputs[i]);
  }
  // Different for each unit, as units that begin alike stay alike.
  for (int unit = 0; unit < kHidden; ++unit) {
    parameters[3 * unit] = 2.0f + static_cast<float>(unit % 5) / 2;
    parameters[3 * unit + 1] = 4.0f * unit / (kHidden - 1) - 2;
    parameters[3 * unit + 2] = unit % 2 == 0 ? 0.1f : -0.1f;
  }

  float* const device_inputs = ToDevice(inputs);
  float* const device_wanted = ToDevice(wanted);
  float* const device_parameters = ToDevice(parameters);
  float* const hidden = ToDevice(std::vector<float>(kSamples * kHidden));
  float* const errors = ToDevice(std::vector<float>(kSamples));
  float* const gradient = ToDevice(std::vector<float>(kParameters));
  double first = 0, loss = 0;
  for (int step = 0; step <= steps; ++step) {
    Forward<<<BlocksFor(kSamples), kThreads>>>(device_parameters, device_inputs, device_wanted,
                                               hidden, errors);
    if (step % every == 0 || step == steps) {
      loss = 0;
      for (const float error : FromDevice(errors, kSamples)) loss += error * error / kSamples;
      if (step == 0) first = loss;
      std::printf("training: step %d loss %.6f\n", step, loss);
      std::fflush(stdout);
    }
    if (step == steps) break;
    Backward<<<BlocksFor(kParameters), kThreads>>>(device_parameters, device_inputs, hidden, errors,
                                                   gradient);
    Descend<<<BlocksFor(kParameters), kThreads>>>(gradient, device_parameters);
    CUDA_CHECK_LAUNCH();
    StepOnHost(inputs, wanted, &parameters);
  }

  examples::Expect(steps < 400 || loss < first / 20, "the loss fell from %g to %g alone", first,
                   loss);
  const std::vector<float> learned = FromDevice(device_parameters, kParameters);
  float worst = 0;
  for (int i = 0; i < kParameters; ++i) {
    const float difference = std::fabs(learned[i] - parameters[i]);
    if (!(difference <= worst)) worst = difference;  // A NaN counts as wrong.
  }
  examples::Expect(worst < 1e-3f, "a parameter differs by %g from the host's",
                   static_cast<double>(worst));
  for (float* memory :
       {device_inputs, device_wanted, device_parameters, hidden, errors, gradient}) {
    CUDA_CHECK(cudaFree(memory));
  }
  return examples::Report("loss %.6f to %.6f in %d steps", first, loss, steps);
}
