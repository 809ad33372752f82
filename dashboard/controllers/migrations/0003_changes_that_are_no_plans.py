from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controllers', '0002_defragmentation_of_teams'),
    ]

    operations = [
        migrations.AddField(model_name='roundrow', name='asked_of', field=models.JSONField(default=list)),
        migrations.AddField(model_name='roundrow', name='carried', field=models.DateTimeField(null=True)),
    ]
