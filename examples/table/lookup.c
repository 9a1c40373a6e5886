/* Prints a table's entry for one product: lookup KERNEL DTYPE LAYOUT N K M.
 * `gemmaudit splits run.db --table gemm.h` generates the header. */
#include <stdio.h>
#include <stdlib.h>

#include "gemm.h"

int main(int argc, char **argv)
{
	gemm_product product = {0};
	const gemm_action *action;
	int m, i, count, parts[16];
	if (argc != 7) {
		fprintf(stderr, "usage: lookup KERNEL DTYPE LAYOUT N K M\n");
		return 2;
	}
	product.kernel = argv[1];
	product.dtype = argv[2];
	product.layout = argv[3];
	product.n = atoi(argv[4]);
	product.k = atoi(argv[5]);
	m = atoi(argv[6]);

	action = gemm_lookup(&product, m);
	count = gemm_parts(action, m, parts, 16);
	printf("%s", action->kind == gemm_kernel ? action->kernel : product.kernel);
	for (i = 0; i < count && i < 16; i++)
		printf(" %d", parts[i]);
	printf("\n");
	return 0;
}
