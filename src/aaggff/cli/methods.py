import typer

app = typer.Typer()


@app.command()
def methods():
    """x"""
    print("hi")
