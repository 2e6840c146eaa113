"""The pages, one module for each part of the menu: from a request to a template with its values."""
