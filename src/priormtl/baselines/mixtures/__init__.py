"""Parts of FedEM: components that all tasks share, and each task's shares of them."""
