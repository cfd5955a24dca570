#include <tempera/tempera.h>

int main() { return 0; }
